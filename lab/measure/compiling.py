"""torch.compile for one shape after another: every shape gets its own graph, and none runs uncompiled unsaid.

Dynamo recompiles a function for a few shapes only and from then on runs it as it stands, without a word: a point of
the ninth shape would be of another kernel under the compiled one's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MOST_SHAPES = 4096
# By the names of PyTorch since 2.7 and before; what a release has is set.
SETTINGS: tuple[tuple[tuple[str, str], Any], ...] = (
    (("recompile_limit", "cache_size_limit"), MOST_SHAPES),
    (("accumulated_recompile_limit", "accumulated_cache_size_limit"), MOST_SHAPES),
    (("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"), True),
)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it is compiled for each shape it is called with.

    Args:
        function: of tensors.

    Returns:
        The function compiled; a call beyond MOST_SHAPES shapes raises.
    """
    import torch._dynamo.config as config  # brings in the compiler: only where something is compiled

    for names, value in SETTINGS:
        for name in names:
            if hasattr(config, name):
                setattr(config, name, value)
                break
    wrapped: Callable[..., Any] = torch.compile(function, dynamic=False)
    return wrapped
