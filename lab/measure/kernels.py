"""Which kernel ran, and in PyTorch's own words why one did not.

What is asked for and what runs are two things: scaled_dot_product_attention picks a kernel by device, dtype,
shape and mask. On a CPU the operator's name tells; on an accelerator the names of the kernels it launched do.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

from lab.cost.calls import AttentionCall
from lab.cost.limits import kernel_limit
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.trace import Trace, record
from lab.runs.checks import printable

# The operator inside scaled_dot_product_attention, by what PyTorch calls it, and the backend it belongs to
SDPA_OPERATORS = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_fused_attention_overrideable": "flash",
    "aten::_scaled_dot_product_attention_math": "math",
    "aten::_scaled_dot_product_attention_math_for_mps": "math",
}
# What NVIDIA's fused kernels are named after; cuDNN's also say "flash". ROCm's attn_fwd serves two backends and
# is told apart by the operator alone
FUSED_KERNELS = {
    "cudnn": re.compile(r"cudnn.*(sdpa|fmha|fprop)", re.I),
    "efficient": re.compile(r"fmha_cutlass", re.I),
    "flash": re.compile(r"flash_?(fwd|attn_?fwd)", re.I),
}
SDPA = "aten::scaled_dot_product_attention"
# Operators that do the work of eager attention; views and bookkeeping are left out
EAGER_OPERATORS = ("bmm", "mm", "mul", "mul_", "masked_fill", "masked_fill_", "_softmax")
COMPILED_GRAPH = "## Call CompiledFxGraph"
"""How a graph that torch.compile made shows itself; a hash of its source follows."""
LONGEST_NAME = 120


def observe(call: Callable[[], Any], device_kind: str) -> tuple[str | None, str | None]:
    """Run a call once under the profiler, outside any timing, and name what ran.

    Args:
        call: what to run.
        device_kind: "cpu", "cuda", "xpu" or "mps".

    Returns:
        The name of the kernel, and the SDPA backend it belongs to (None for eager operators).
    """
    trace = record(call, device_kind)
    return kernel_name(trace), backend_of(trace)


def backend_of(trace: Trace) -> str | None:
    """Give the SDPA backend that ran: by the kernels of the accelerator where they tell, else by the operator.

    Args:
        trace: the profiled call.

    Returns:
        "flash", "efficient", "cudnn" or "math" (a product and a softmax, launched by SDPA); None when nothing
        of the kind ran.
    """
    for backend, name in FUSED_KERNELS.items():
        if any(name.search(kernel) for kernel in trace.kernels):
            return backend
    told = next((SDPA_OPERATORS[name] for name in trace.operators if name in SDPA_OPERATORS), None)
    unfused = any("softmax" in kernel for kernel in trace.kernels)
    return told or ("math" if unfused and SDPA in trace.operators else None)


def kernel_name(trace: Trace) -> str | None:
    """Name what ran: the kernels of the accelerator, else SDPA's operator, else the eager operators in order.

    Args:
        trace: the profiled call.

    Returns:
        Names joined by " + ", or None when nothing telling was seen.
    """
    if trace.kernels:
        names = [shorten(name) for name in trace.kernels]
        return " + ".join(dict.fromkeys(name for name in names if name))[:LONGEST_NAME] or None
    operator = next((name for name in trace.operators if name in SDPA_OPERATORS), None)
    if operator is not None:
        return operator.removeprefix("aten::")
    if any(name.startswith(COMPILED_GRAPH) for name in trace.operators):
        return "compiled graph"
    eager = [name.removeprefix("aten::") for name in trace.operators]
    return " + ".join(dict.fromkeys(name for name in eager if name in EAGER_OPERATORS)) or None


def shorten(kernel: str) -> str:
    """Take the telling part of an accelerator kernel's name: no return type, template or arguments.

    Args:
        kernel: such as "void pytorch_flash::flash_fwd_kernel<...>(pytorch_flash::Flash_fwd_params)".

    Returns:
        Such as "flash_fwd_kernel"; names that carry a tile or an architecture keep it. Elementwise kernels,
        of which an eager call launches several alike, become "elementwise".
    """
    named = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    bare = re.split(r"[<(]", named, maxsplit=1)[0].strip()
    name = bare.rsplit("::", 1)[-1]
    return "elementwise" if "elementwise" in name else name


def attempt(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """Run a call, and give PyTorch's reasons if it refuses.

    Args:
        call: what to run.

    Returns:
        What the call returned and None, or None and the reasons, whatever was raised. Running out of memory is
        no refusal: it raises.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return call(), None
        except Exception as error:
            if is_out_of_memory(error):
                raise
            return None, reason_text([str(warning.message) for warning in caught], error)


def reason_text(said: list[str], error: Exception) -> str:
    """Join the warnings that led to a refusal and the refusal itself, without the places in PyTorch's source.

    Args:
        said: texts of the warnings, in order.
        error: what was raised.

    Returns:
        One text; a backend's headline ("... not used because:") is kept only with a reason behind it.
    """
    texts = [re.sub(r"\s*\(Triggered internally at .*?\)\s*$", "", text, flags=re.S).strip() for text in said]
    reasons = [
        text
        for text, following in itertools.pairwise([*texts, "because:"])
        if not (text.endswith("because:") and following.endswith("because:"))
    ]
    return printable(" ".join([*dict.fromkeys(reasons), " ".join(words_of(error).split())]))


def words_of(error: BaseException) -> str:
    """Give the first line of an error; its type too where that is not PyTorch's usual one.

    Args:
        error: what was raised.

    Returns:
        Such as "KeyError: 'x'", never empty.
    """
    said, kind = printable(str(error)).strip().splitlines(), type(error).__name__
    if not said:
        return kind
    return said[0] if isinstance(error, RuntimeError) else f"{kind}: {said[0]}"


def failure(error: BaseException) -> tuple[str, str]:
    """Give the status of a point whose implementation raised, and why in words.

    Args:
        error: what was raised.

    Returns:
        "out_of_memory" or "crashed", and a text.
    """
    if is_out_of_memory(error):
        said = str(error).strip().splitlines()
        return "out_of_memory", said[0] if said else "Python ran out of memory"
    return "crashed", words_of(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an exception means that memory ran out, on the CPU or on an accelerator.

    Args:
        error: what was raised.

    Returns:
        True for PyTorch's out-of-memory errors and Python's own.
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def beyond_limit(backend: str | None, call: AttentionCall, device_kind: str) -> str | None:
    """Say in words when the backend that ran is known to be wrong at a call's size without an error.

    Args:
        backend: that was seen to run, whatever was asked for.
        call: the shape; a causal one is masked in whatever way.
        device_kind: "cpu", "cuda", "xpu" or "mps".
    """
    limit = kernel_limit(
        backend or "",
        heads=call.heads,
        q_len=call.q_len,
        kv_len=call.kv_len,
        causal=call.causal,
        device=device_kind,
    )
    return None if limit is None else limit.reason


def mismatch(implementation: str, seen: str | None) -> str | None:
    """Say in words when another backend ran than the one asked for.

    Args:
        implementation: what was asked for.
        seen: the backend that ran.

    Returns:
        One sentence, or None when they agree or nothing particular was asked for.
    """
    known = IMPLEMENTATIONS.get(implementation)
    asked = known.backend if known else None
    if asked is None or seen is None or asked == seen:
        return None
    return f"{asked} was asked for, {seen} ran"
