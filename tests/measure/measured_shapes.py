"""Inputs, shapes and jobs shared by the tests of lab.measure."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import torch

from lab.measure.device import DTYPES, Device
from lab.measure.events import Events
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.job import Job
from lab.runs import Point, default_spec

# batch, heads, kv_heads, q_len, kv_len, head_dim
SHAPES = {
    "square": (1, 4, 4, 130, 130, 64),
    "grouped": (2, 8, 2, 96, 96, 64),
    "one KV head": (2, 4, 1, 65, 65, 32),
    "fewer queries than keys": (1, 4, 4, 33, 200, 64),
    "grouped, fewer queries": (2, 6, 3, 40, 129, 48),
    "decode": (3, 4, 1, 1, 300, 128),
    "odd head_dim": (1, 3, 3, 77, 77, 73),
    "narrow": (1, 2, 2, 50, 50, 8),
    "wide": (1, 2, 2, 64, 64, 256),
    "single token": (1, 2, 2, 1, 1, 16),
    "past two tiles": (1, 2, 2, 1100, 1100, 40),
}

SMALL = {"heads": 4, "kv_heads": 4, "head_dim": 32, "rounds": 3, "quick": True}
"""A job of this size ends at once."""


def draw(
    sizes: tuple[int, ...], dtype: str, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, heads, kv_heads, q_len, kv_len, head_dim = sizes
    generator = torch.Generator().manual_seed(seed)

    def tensor(heads: int, length: int) -> torch.Tensor:
        return torch.randn(batch, heads, length, head_dim, generator=generator).to(DTYPES[dtype])

    return tensor(heads, q_len), tensor(kv_heads, kv_len), tensor(kv_heads, kv_len)


def job(experiment: str = "scaling", device: Device | None = None, **changes: object) -> Job:
    """A job on the CPU (or a double of a device) that changes no setting of the test process."""
    spec = default_spec(experiment, **{"dtype": "fp32", "lengths": (16, 32), **changes})
    opened = Job(spec, device or Device(), spec.dtype, torch.get_num_threads())
    return replace(opened, dtype="fp32") if spec.dtype == "auto" else opened


def events_of(name: str, part: str, opened: Job) -> list[dict]:
    """Run one part of an experiment in this process and give what it tells."""
    stream = io.StringIO()
    with torch.inference_mode():
        EXPERIMENTS[name].run(opened, part, Events(stream))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def points_of(name: str, part: str, opened: Job) -> list[Point]:
    """Run one part of an experiment in this process and give its points."""
    return [Point.from_dict(e["point"]) for e in events_of(name, part, opened) if e["event"] == "point"]
