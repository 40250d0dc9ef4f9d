"""Checks of values that come from outside: run files, uploads, the command line, a worker's output.

Each function returns a check, `check(value, name) -> value`, that gives back the cleaned value or raises a
ValueError of one sentence naming the argument, the value and what is allowed. Records list one per field.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from datetime import datetime
from numbers import Real
from typing import Any, ClassVar, Self

Check = Callable[[Any, str], Any]

LARGEST_INT = 2**63 - 1  # what numpy and pandas hold without changing the type
MAX_DEPTH = 8  # of nested tables and environments
MOST_SECONDS = 1e7  # four months: nothing that one call takes, and far from what overflows
LEAST_SECONDS = 1e-12  # less than a clock cycle
LARGEST_ERROR = 1e40  # above the largest number of fp32, 3.4e38
LARGEST_FIGURE = 1e30  # of what an experiment saw beyond time and memory
MOST_ROWS, MOST_COLUMNS = 1000, 100  # of a printed table
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but tab and line feed, which steer a terminal, and halves of a character, which no file holds."""


def shown(value: object) -> str:
    """Return a value as it may stand in an error message: short, whatever was passed."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def whole(low: int = 0, high: int = LARGEST_INT) -> Check:
    """Return a check for an integer between low and high, both included."""

    def check(value: Any, name: str) -> int:
        try:
            if isinstance(value, bool):
                raise TypeError
            result = operator.index(value)
        except TypeError:
            raise ValueError(f"{name} is {shown(value)}; it must be a whole number") from None
        if not low <= result <= high:
            raise ValueError(f"{name} is {shown(value)}; it must be between {low:,} and {high:,}")
        return result

    return check


def number(low: float = 0.0, high: float = math.inf) -> Check:
    """Return a check for a finite float between low and high; NaN and infinities are refused."""
    allowed = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"

    def check(value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"{name} is {shown(value)}; it must be a number")
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if not math.isfinite(result) or not low <= result <= high:
            raise ValueError(f"{name} is {shown(value)}; it must be finite and {allowed}")
        return result

    return check


seconds = number(LEAST_SECONDS, MOST_SECONDS)
"""Checks the time of a call."""
error = number(0.0, LARGEST_ERROR)
"""Checks an error, or the largest one accepted."""
rate = number(1.0, LARGEST_FIGURE)
"""Checks FLOPs or bytes a second."""


def printable(value: str) -> str:
    """Return a text without what would steer a terminal or cannot be written: each such character as "?".

    Args:
        value: any text.
    """
    return _UNPRINTABLE.sub("?", value)


def text(limit: int = 4000) -> Check:
    """Return a check for a string of at most `limit` characters, none of which steers a terminal."""

    def check(value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{name} is {shown(value)}; it must be a text")
        if len(value) > limit:
            raise ValueError(f"{name} has {len(value):,} characters; at most {limit:,} are allowed")
        if _UNPRINTABLE.search(value):
            raise ValueError(
                f"{name} is {shown(value)}; it must hold no control character and no half of one"
            )
        return value

    return check


def one_of(*allowed: str) -> Check:
    """Return a check for one of the given names."""

    def check(value: Any, name: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{name} is {shown(value)}; it must be one of {', '.join(allowed)}")
        return value

    return check


def pattern(regex: str, allowed: str) -> Check:
    """Return a check for a string that the whole regular expression matches; `allowed` says so in words."""

    def check(value: Any, name: str) -> str:
        if not isinstance(value, str) or not re.fullmatch(regex, value):
            raise ValueError(f"{name} is {shown(value)}; it must be {allowed}")
        return value

    return check


def moment(value: Any, name: str) -> str:
    """Check a time in UTC to the second, of a day that there is."""
    allowed = "a UTC time such as 2026-01-31T12:00:00Z"
    found: str = pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", allowed)(value, name)
    try:
        datetime.fromisoformat(found)
    except ValueError:
        raise ValueError(f"{name} is {shown(value)}; it must be {allowed}") from None
    return found


def flag(value: Any, name: str) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {shown(value)}; it must be true or false")
    return value


def optional(check: Check) -> Check:
    """Return a check that lets None through and hands everything else to `check`."""
    return lambda value, name: None if value is None else check(value, name)


def many(check: Check, most: int, least: int = 0) -> Check:
    """Return a check for a list of `least` to `most` values, each of which passes `check`."""

    def check_all(value: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} is {shown(value)}; it must be a list")
        if not least <= len(value) <= most:
            raise ValueError(f"{name} has {len(value):,} values; {least:,} to {most:,} are allowed")
        return tuple(check(item, f"{name}[{i}]") for i, item in enumerate(value))

    return check_all


def plain(value: Any, name: str, depth: int = 0) -> Any:
    """Check a value that strict JSON can hold: finite numbers, short texts, lists and tables of those."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{name} is nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text()(value, name)
    if isinstance(value, Mapping):
        return {
            text(200)(key, name): plain(item, f"{name}.{shown(key)}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value)]
    if hasattr(value, "__index__"):
        return whole(-LARGEST_INT)(value, name)
    return number(-math.inf)(value, name)


def table(value: Any, name: str) -> dict[str, Any]:
    """Check a table (JSON object) of plain values."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {shown(value)}; it must be a table of names and values")
    result: dict[str, Any] = plain(value, name)
    return result


def table_of(**checks: Check) -> Check:
    """Return a check for a table of plain values of which some names have a check of their own."""

    def check(value: Any, name: str) -> dict[str, Any]:
        result = table(value, name)
        return result | {
            key: known(result[key], f"{name}.{key}") for key, known in checks.items() if key in result
        }

    return check


def grid(value: Any, name: str) -> Any:
    """Check the rows of a printed table: lists of plain values."""
    many(many(plain, MOST_COLUMNS), MOST_ROWS)(value, name)
    return value


def titles(value: Any, name: str) -> Any:
    """Check the names above a printed table's columns."""
    many(text(200), MOST_COLUMNS)(value, name)
    return value


figure_name = pattern(r"[a-z][a-z0-9_]{0,59}", "lower-case letters, digits and underscores")


def figures(value: Any, name: str) -> dict[str, float]:
    """Check named figures: a table of at most 100 finite numbers, each name in lower case with its unit."""
    result = table(value, name)
    if len(result) > 100:
        raise ValueError(f"{name} has {len(result):,} values; at most 100 are allowed")
    for key, item in result.items():
        figure_name(key, f"a name in {name}")
        result[key] = number(-LARGEST_FIGURE, LARGEST_FIGURE)(item, f"{name}.{key}")
    return result


class Record:
    """Base of the frozen dataclasses that go into a run file: every field is checked when one is made."""

    CHECKS: ClassVar[Mapping[str, Check]]

    def __post_init__(self) -> None:
        """Check and clean every field (lists become tuples, numpy scalars Python numbers)."""
        for name, check in self.CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name), name))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain dictionaries, for JSON."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the record that `to_dict` described.

        Raises:
            ValueError: a field is missing, unknown or has a value that is not allowed.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"{cls.__name__} is {shown(data)}; it must be a table of names and values")
        known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        unknown = [str(name) for name in data if name not in known]
        if unknown:
            raise ValueError(
                f"{cls.__name__} has a field {shown(unknown[0])} that this version does not know"
            )
        for name, field in known.items():
            if name not in data and field.default is MISSING and field.default_factory is MISSING:
                raise ValueError(f"{cls.__name__} lacks the field {name!r}")
        return cls(**data)


def record(kind: type[Record]) -> Check:
    """Return a check for a record of one kind, given as such or as the dictionary of one."""
    return lambda value, name: value if isinstance(value, kind) else kind.from_dict(value)
