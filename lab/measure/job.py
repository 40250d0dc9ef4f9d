"""A job on its device: the specification with every "auto" resolved, and the points it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from lab.cost.calls import AttentionCall
from lab.measure.accelerators import resolve
from lab.measure.device import DTYPES, Device
from lab.measure.memory import predicted_peak
from lab.runs import JobSpec, Point

CPU_IMPLEMENTATIONS = ("naive", "math", "flash")
ACCELERATOR_IMPLEMENTATIONS = ("naive", "math", "flash", "efficient", "cudnn")


@dataclass(frozen=True)
class Job:
    """What is measured, and where.

    Args:
        spec: as asked for.
        device: the device found.
        dtype: the dtype taken, "fp64", "fp32", "bf16" or "fp16".
        threads: CPU threads that compute.
    """

    spec: JobSpec
    device: Device
    dtype: str
    threads: int

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as PyTorch names it."""
        return DTYPES[self.dtype]

    @property
    def implementations(self) -> tuple[str, ...]:
        """The implementations asked for, or all that exist on this kind of device."""
        every = CPU_IMPLEMENTATIONS if self.device.kind == "cpu" else ACCELERATOR_IMPLEMENTATIONS
        return self.spec.implementations or every

    @property
    def warm_heap(self) -> bool:
        """Whether the CPU allocator is to keep freed blocks; accelerators' allocators always do."""
        return self.spec.warm_heap and self.device.kind == "cpu"

    def cold_cache(self, usual: bool) -> bool:
        """Say whether inputs take turns so that no cache holds them.

        Args:
            usual: whether they do where the job does not say.
        """
        return usual if self.spec.cache == "auto" else self.spec.cache == "cold"

    def call(self, *, batch: int, q_len: int, kv_len: int) -> AttentionCall:
        """Make the shape of one cell.

        Args:
            batch: sequences.
            q_len: queries.
            kv_len: keys.

        Returns:
            The shape; lab.cost knows two kinds of device, the CPU and accelerators.
        """
        return AttentionCall(
            batch=batch,
            heads=self.spec.heads,
            kv_heads=self.spec.kv_heads,
            q_len=q_len,
            kv_len=kv_len,
            head_dim=self.spec.head_dim,
            dtype=self.dtype,
            causal=self.spec.causal,
            threads=self.threads,
            device="cpu" if self.device.kind == "cpu" else "cuda",
        )

    def point(
        self,
        implementation: str,
        call: AttentionCall,
        status: str,
        *,
        backend: str | None = None,
        warnings: tuple[str, ...] = (),
        **found: Any,
    ) -> Point:
        """Make a point of this job.

        Args:
            implementation: what was asked for.
            call: the shape.
            status: one of lab.runs.STATUSES.
            backend: the SDPA backend that ran, where one did.
            warnings: in words.
            found: further fields of the point.

        Returns:
            The point, with the predicted peak and what is to be known of the dtype.
        """
        if "predicted_peak_bytes" not in found:
            found["predicted_peak_bytes"] = predicted_peak(implementation, call, backend)
        slow = self.device.dtype_warning(call.dtype)
        return Point(
            experiment=self.spec.experiment,
            implementation=implementation,
            status=status,
            batch=call.batch,
            heads=call.heads,
            kv_heads=call.kv_heads,
            q_len=call.q_len,
            kv_len=call.kv_len,
            head_dim=call.head_dim,
            dtype=call.dtype,
            causal=call.causal,
            warnings=(*warnings, slow) if slow else warnings,
            **found,
        )


def open_job(spec: JobSpec) -> Job:
    """Find the device and the dtype of a job, and set the number of threads.

    Args:
        spec: as asked for.

    Returns:
        The job.

    Raises:
        ValueError: a device that is not there, or a dtype it does not compute in.
    """
    device = resolve(spec.device)
    device.activate()
    dtype = device.default_dtype() if spec.dtype == "auto" else spec.dtype
    if dtype not in device.dtypes():
        allowed = ", ".join(device.dtypes())
        raise ValueError(f"dtype is {dtype!r}; {device.kind} computes in {allowed}")
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    return Job(spec, device, dtype, torch.get_num_threads())
