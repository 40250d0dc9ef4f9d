"""The look of a chart, built and checked once; the axes and names of the moment are put into it.

Altair takes a tenth of a second to build and check a layered spec, longer than everything else on a page.
A step of a slider changes nothing in it but domains, ticks and the names of lines: these alone are written
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

from lab.view.axes import Axis

KEPT = 256
NO_NAMES: Mapping[str, str] = {}


def with_axes(
    build: Callable[..., dict[str, Any]],
    axes: Mapping[str, Axis],
    *look: Hashable,
    names: Mapping[str, str] = NO_NAMES,
) -> dict[str, Any]:
    """The spec of a chart with these axes and names, built only when its look has not been seen before.

    Args:
        build: makes the spec from the axes, in the order given, and the look. It may use an axis's title, and
            its domain and ticks only through `Axis.scale` and `Axis.axis` on the axis's own channel.
        axes: by Vega-Lite channel: "x", "y".
        look: everything else that the spec depends on.
        names: what is written in place of a string of the look.

    Returns:
        What `build` would return for these axes, and for the look with its strings replaced.
    """
    blanks = tuple(Axis(axis.title, 1.0, 2.0, (), axis.base) for axis in axes.values())
    spec = _built(build, blanks, look)
    channels = {name: {"scale": axis.scale(), "axis": axis.axis()} for name, axis in axes.items()}
    return spec | {"layer": [_dressed(_renamed(layer, names), channels) for layer in spec["layer"]]}


@lru_cache(maxsize=KEPT)
def _built(
    build: Callable[..., dict[str, Any]], blanks: tuple[Axis, ...], look: tuple[Hashable, ...]
) -> dict[str, Any]:
    return build(*blanks, *look)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return value


def _dressed(layer: dict[str, Any], channels: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """A layer in which every channel that has an axis has the one of the moment."""
    encoding = layer["encoding"]
    fresh = {
        name: encoding[name] | own for name, own in channels.items() if "scale" in encoding.get(name, ())
    }
    return layer | {"encoding": encoding | fresh}
