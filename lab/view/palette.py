"""Colours, dashes and shapes: one meaning each, everywhere, in the light theme and in the dark one.

Dash and shape repeat what the colour says, so that a chart survives a bad projector and colour-blind eyes.
Families of lines (batches, contexts, models, cards) use the sequential ramp, never a role's colour.
"""

from __future__ import annotations

from dataclasses import dataclass

NAIVE, MATH, FUSED, WEIGHTS, LIMIT = "naive", "math", "fused", "weights", "limit"
ROLES = (NAIVE, MATH, FUSED, WEIGHTS, LIMIT)
NAMES = {NAIVE: "naive", MATH: "math", FUSED: "SDPA (fused)"}
"""What charts and sentences call an implementation by its role; tables say which kernel of it ran."""

# Which role an implementation's name plays; naive attention in the lab is what transformers calls "eager".
# The last five work block by block or on part of the keys: like a fused kernel, they never hold every score.
_ROLE_OF_IMPLEMENTATION = {
    **dict.fromkeys(("naive", "naive_inplace", "naive_fp32", "eager"), NAIVE),
    "math": MATH,
    **dict.fromkeys(("flash", "efficient", "cudnn", "sdpa"), FUSED),
    **dict.fromkeys(("blockwise", "flex", "split_kv", "windowed", "quantised"), FUSED),
}

DASHES: dict[str, list[int]] = {
    NAIVE: [2, 3],
    MATH: [7, 4],
    FUSED: [1, 0],
    WEIGHTS: [9, 3, 2, 3],
    LIMIT: [14, 6],
}

SHAPES = {NAIVE: "triangle-up", MATH: "square", FUSED: "circle", WEIGHTS: "cross", LIMIT: "stroke"}


@dataclass(frozen=True)
class Palette:
    """The colours of one theme.

    Args:
        name: "light" or "dark".
        roles: colour by role.
        ramp: sequential colours for families of lines, from the smallest member to the largest.
        text: axis labels, titles and direct labels.
        grid: grid lines.
        background: the page behind the chart; hollow marks are filled with it.
    """

    name: str
    roles: dict[str, str]
    ramp: tuple[str, ...]
    text: str
    grid: str
    background: str

    def family(self, count: int) -> list[str]:
        """Colours for a family of `count` lines, spread over the ramp.

        Args:
            count: members of the family, from 1 to the ramp's length.

        Raises:
            ValueError: the ramp has not that many colours.
        """
        if not 1 <= count <= len(self.ramp):
            raise ValueError(f"count must be from 1 to {len(self.ramp)}, got {count}")
        if count == 1:
            return [self.ramp[-1]]
        last = len(self.ramp) - 1
        return [self.ramp[round(place * last / (count - 1))] for place in range(count)]


LIGHT = Palette(
    name="light",
    roles={NAIVE: "#C04A00", MATH: "#8F3F6B", FUSED: "#0072B2", WEIGHTS: "#007A5A", LIMIT: "#404040"},
    ramp=("#8A7FC7", "#7263B5", "#5B489F", "#442F86", "#2C1A66"),
    text="#1A1D21",
    grid="#DDE1E6",
    background="#FFFFFF",
)

DARK = Palette(
    name="dark",
    roles={NAIVE: "#FF8A47", MATH: "#E7A6CC", FUSED: "#56B4E9", WEIGHTS: "#1FBF8F", LIMIT: "#F0E442"},
    ramp=("#8F86D9", "#A49CE3", "#BAB3EC", "#D0CBF4", "#E8E5FB"),
    text="#F0F2F5",
    grid="#333A43",
    background="#14171B",
)


def palette(dark: bool) -> Palette:
    """The palette of the theme in use."""
    return DARK if dark else LIGHT


def role_of(implementation: str) -> str:
    """The role an implementation plays.

    Args:
        implementation: a name such as "naive", "math" or "sdpa".

    Raises:
        ValueError: the name has no role.
    """
    if implementation not in _ROLE_OF_IMPLEMENTATION:
        known = ", ".join(_ROLE_OF_IMPLEMENTATION)
        raise ValueError(f"implementation must be one of {known}, got {implementation!r}")
    return _ROLE_OF_IMPLEMENTATION[implementation]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 to 21.

    Args:
        first: "#RRGGBB".
        second: "#RRGGBB".

    Source: WCAG 2.2, "contrast ratio".
    """
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
