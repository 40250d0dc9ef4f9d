"""Recomputations from nothing but a source's own printed numbers: does its arithmetic agree with itself?"""

from fractions import Fraction
from math import prod

from lab.cost.claims.attention import Values
from lab.cost.claims.facts import tables
from lab.cost.claims.printed import corners, exactly, read_figure


def multiplied(factors: list[int]) -> Values:
    """The source's own factors multiplied."""
    return [exactly(prod(factors))]


def ratio_of_printed(numerator: str, denominator: str) -> Values:
    """One printed number over another."""
    return [corners(lambda a, b: a / b, read_figure(numerator).interval, read_figure(denominator).interval)]


def share_of_printed(part: str, rest: str) -> Values:
    """One printed number over its sum with another."""
    return [corners(lambda a, b: a / (a + b), read_figure(part).interval, read_figure(rest).interval)]


def sequences_by_printed(memory: str, weights: str, cache: str) -> Values:
    """Printed memory less printed weights, over the printed size of one cache, whole sequences only."""
    room = Fraction(memory) - Fraction(weights)
    return [exactly(room // Fraction(cache))]


def start_up_share(cold_slow: str, cold_fast: str) -> Values:
    """Share of an un-warmed ratio that is gone once both calls are warm."""
    cold = ratio_of_printed(cold_slow, cold_fast)[0]
    warm = read_figure(str(tables()["first_call"]["warm_ratio"])).interval
    return [corners(lambda before, after: 1 - after / before, cold, warm)]
