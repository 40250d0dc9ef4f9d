"""Readings of one new token against a cache: bandwidth, splitting, grouped heads, quantised numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cost.formulas import BYTES_PER_ELEMENT, kv_bytes
from lab.runs.point import Point
from lab.runs.readings.words import at, called, groups, one, size, timed, told, versus


def decode(points: Sequence[Point]) -> list[str]:
    """Say which bandwidth reading the cache reached, for the fastest implementation of each shape.

    Args:
        points: of the decode experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(timed(points), lambda p: (p.batch, p.kv_len, p.dtype)).values():
        fastest = min(found, key=_median)
        rates = sorted(((bandwidth(point), called(point)) for point in found), reverse=True)
        reached = ", ".join(f"{name} {rate / 1e9:.3g} GB/s" for rate, name in rates)
        said.append(f"{at(fastest)}: the cache of {size(cache(fastest))} is read at {reached}.")
    return said


def cache(point: Point) -> float:
    """Give the bytes of K and V that a point's call reads.

    Args:
        point: any.
    """
    element = BYTES_PER_ELEMENT[point.dtype]
    return float(kv_bytes(point.batch, 1, point.kv_heads, point.kv_len, point.head_dim, element))


def bandwidth(point: Point) -> float:
    """Give the bytes of the cache over the time of a call.

    Args:
        point: with a time.
    """
    return cache(point) / point.timing.median_s if point.timing else 0.0


def split_kv(points: Sequence[Point]) -> list[str]:
    """Say whether splitting the cache helps a lone sequence: by each way, the best split against one part.

    Args:
        points: of the split-KV experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(timed(points), lambda p: (p.batch, p.kv_len, p.dtype)).values():
        split = [point for point in found if point.variant is not None]
        for how, ways in groups(split, lambda p: str(p.variant).rpartition(", ")[2]).items():
            control = one(ways, variant=f"1 part, {how}")
            several = [point for point in ways if point is not control]
            if control is None or not several:
                continue
            best = min(several, key=_median)
            ratio = versus(best, control)
            if ratio is not None:
                said.append(
                    f"{at(best)}, {how}: {str(best.variant).partition(',')[0]} over one, "
                    f"{bandwidth(best) / 1e9:.3g} against {bandwidth(control) / 1e9:.3g} GB/s, time {told(ratio)}; "
                    f"one part offers {control.measures.get('work_items', 0):.0f} pieces of work."
                )
        said += _fastest(found)
    return said


def _fastest(found: Sequence[Point]) -> list[str]:
    """Name the fastest way of all, split or not."""
    if not found:
        return []
    best = min(found, key=_median)
    name = f"{best.implementation}, {best.variant}" if best.variant else best.implementation
    return [f"{at(best)}: the fastest of all is {name}, at {bandwidth(best) / 1e9:.3g} GB/s."]


def _median(point: Point) -> float:
    return point.timing.median_s if point.timing else 0.0


def gqa(points: Sequence[Point]) -> list[str]:
    """Say what fewer KV heads bring: time against bytes of the cache.

    Args:
        points: of the grouped-query experiment.

    Returns:
        Sentences.
    """
    said = []
    key = groups(timed(points), lambda p: (p.variant, p.implementation, p.batch, p.kv_len, p.dtype))
    for (phase, name, *_), found in key.items():
        most = max(found, key=lambda p: p.kv_heads)
        fewest = min(found, key=lambda p: p.kv_heads)
        ratio = versus(fewest, most)
        if phase is None or most.kv_heads == fewest.kv_heads or ratio is None:
            continue
        said.append(
            f"{name}, {phase} at {at(most)}: {fewest.kv_heads} instead of {most.kv_heads} KV heads is "
            f"{fewest.kv_heads / most.kv_heads:.2g} of the cache; time over time {told(ratio)}."
        )
    return said


def kv_int8(points: Sequence[Point]) -> list[str]:
    """Say what each storage type saves and what it costs in accuracy.

    Args:
        points: of the quantised-cache experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(points, _kind).values():
        plain = one(found, implementation="sdpa")
        for point in found:
            if point is plain or plain is None or point.variant is None:
                continue
            error, kept = (point.measures.get(name) for name in ("rms_relative_error", "cache_bytes"))
            whole = plain.measures.get("cache_bytes")
            if error is None or kept is None or not whole:
                continue
            saved = kept / whole
            own = plain.measures.get("rms_relative_error", 0.0)
            said.append(
                f"{point.variant} at {at(point)}: {saved:.2g} of the bytes, error {error:.2g} of the output's "
                f"size ({own:.2g} without quantising)."
            )
    return said


def _kind(point: Point) -> tuple[object, ...]:
    return point.batch, point.kv_len, point.dtype, str(point.variant).rpartition(", ")[2]
