"""Reading a config.json field by field: every value checked, every refusal one sentence naming the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_COUNT = 10**9
"""Largest size believed: the longest stated context is 10,485,760, the largest table under 300,000 rows."""
MAX_LAYERS = 10_000
_SHOWN_CHARACTERS = 60
_UNSTATED = object()


class ConfigError(ValueError):
    """A config that gives no shape: a field missing, impossible, contradictory, or not modelled."""


def shown(value: object) -> str:
    """Show a value in a sentence, cut to a readable length; it may be hostile (huge, unprintable)."""
    if isinstance(value, Mapping):
        return f"an object of {len(value)} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_SHOWN_CHARACTERS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        value = value[: _SHOWN_CHARACTERS + 1]
    text = repr(value).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


class Fields:
    """The fields of one config, under the names its family uses, with the defaults its family documents.

    `names` maps the usual name of a field to the family's own ("hidden_size" to "n_embd"); transformers
    accepts both. `renamed` does the same where it accepts only the family's own. `defaults` holds the
    defaults of the family's config class. Those that were needed are remembered in `assumed`, so that a
    shape can say what its config did not state.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        prefix: str = "",
        names: Mapping[str, str] | None = None,
        renamed: Mapping[str, str] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap the values of a config; `prefix` says in messages which object they are in."""
        self.values = values
        self.prefix = prefix
        self.renamed = renamed or {}
        self.names = {**(names or {}), **self.renamed}
        self.defaults = defaults or {}
        self.assumed: dict[str, Any] = {}
        self.read: set[str] = set()

    def label(self, name: str) -> str:
        """Name a field as the config does, with the object it is in."""
        own = self.names.get(name, name)
        usual = name in self.values and own not in self.values and name not in self.renamed
        return f"{self.prefix}{name if usual else own}"

    def refuse(self, name: str, why: str) -> ConfigError:
        """Make the refusal of one field: "field: why"."""
        return ConfigError(f"{self.label(name)}: {why}.")

    def raw(self, name: str, default: Any = _UNSTATED) -> Any:
        """Read a value as it stands.

        Args:
            name: the usual name of the field.
            default: used when neither the config nor the family's config class states one.

        Returns:
            The value; None where the config says null.

        Raises:
            ConfigError: not stated and no default, or stated twice with different values.
        """
        own = self.names.get(name, name)
        accepted = (own,) if name in self.renamed else dict.fromkeys((own, name))
        self.read.update(accepted)
        stated = [key for key in accepted if key in self.values]
        if len(stated) == 2 and self.values[own] != self.values[name]:
            raise self.refuse(
                name, f"{shown(self.values[own])} contradicts {name} = {shown(self.values[name])}"
            )
        if stated:
            return self.values[stated[0]]
        found = self.defaults.get(name, default)
        if found is _UNSTATED:
            raise self.refuse(name, "missing, and no default of this family is safe to assume")
        if name in self.defaults:
            self.assumed[own] = found
        return found

    def count(self, name: str, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
        """Read a whole number that must be there.

        Args:
            name: the usual name of the field.
            minimum: smallest value allowed.
            maximum: largest value allowed.

        Returns:
            The number.

        Raises:
            ConfigError: missing, null, not a whole number, out of range.
        """
        return self._whole(name, self.raw(name), minimum, maximum)

    def nullable_count(self, name: str, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int | None:
        """Read a whole number that may be null; as for `count`, it must be stated or have a default.

        Args:
            name: the usual name of the field.
            minimum: smallest value allowed.
            maximum: largest value allowed.

        Returns:
            The number or None.

        Raises:
            ConfigError: missing, not a whole number, out of range.
        """
        value = self.raw(name)
        return None if value is None else self._whole(name, value, minimum, maximum)

    def optional_count(self, name: str, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int | None:
        """Read a whole number whose absence means there is no such thing.

        Args:
            name: the usual name of the field.
            minimum: smallest value allowed.
            maximum: largest value allowed.

        Returns:
            The number or None.

        Raises:
            ConfigError: not a whole number, out of range.
        """
        value = self.raw(name, None)
        return None if value is None else self._whole(name, value, minimum, maximum)

    def _whole(self, name: str, value: Any, minimum: int, maximum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.refuse(
                name, f"must be a whole number from {minimum:,} to {maximum:,}, got {shown(value)}"
            )
        return value

    def flag(self, name: str) -> bool:
        """Read true or false.

        Args:
            name: the usual name of the field.

        Returns:
            The flag.

        Raises:
            ConfigError: missing without a default, or neither true nor false.
        """
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self.refuse(name, f"must be true or false, got {shown(value)}")
        return value

    def option(self, choice: bool | str) -> bool:
        """Resolve what a family fixes (True, False) or leaves to a field of the config (its name)."""
        return choice if isinstance(choice, bool) else self.flag(choice)

    def words(self, name: str, allowed: Sequence[str], length: int) -> list[str] | None:
        """Read a list with one word a layer.

        Args:
            name: the usual name of the field.
            allowed: the words there are.
            length: number of layers.

        Returns:
            The list, or None where the config has none.

        Raises:
            ConfigError: not a list, an unknown word, not one a layer.
        """
        value = self.raw(name, None)
        if value is None:
            return None
        self._check_list(name, value)
        for item in value:
            if item not in allowed:
                raise self.refuse(name, f"each must be one of {', '.join(allowed)}, got {shown(item)}")
        if len(value) != length:
            raise self.refuse(name, f"{len(value)} entries contradict num_hidden_layers = {length}")
        return list(value)

    def numbers(self, name: str, *, maximum: int) -> list[int] | None:
        """Read a list of whole numbers from 0 to `maximum`, such as indices of layers.

        Args:
            name: the usual name of the field.
            maximum: largest number allowed.

        Returns:
            The list, or None where it is null.

        Raises:
            ConfigError: missing without a default, not a list, or an entry that is no such number.
        """
        value = self.raw(name)
        if value is None:
            return None
        self._check_list(name, value)
        return [self._whole(name, item, 0, maximum) for item in value]

    def _check_list(self, name: str, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise self.refuse(name, f"must be a list, got {shown(value)}")
        if len(value) > MAX_LAYERS:
            raise self.refuse(name, f"must have at most {MAX_LAYERS:,} entries, got {len(value):,}")
