"""What is asked for: the specification of one measuring job, the same for the command line and the app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lab.runs.checks import Check, Record, flag, many, one_of, optional, pattern, whole

EXPERIMENTS = (
    "memory",
    "scaling",
    "decode",
    "selftest",
    "calibrate",
    "causal",
    "mask",
    "windowed",
    "gqa",
    "split_kv",
    "accuracy",
    "kv_int8",
    "backends",
    "first_call",
    "training",
    "model",
    "flops",
    "cpu",
    "all",
)
IMPLEMENTATIONS = (
    "naive",
    "naive_inplace",
    "naive_fp32",
    "math",
    "flash",
    "efficient",
    "cudnn",
    "sdpa",
    "blockwise",
    "flex",
    "split_kv",
    "windowed",
    "quantised",
    "eager",
)
"""What can be measured: attention by name (lab.measure.implementations), and a model's "eager" attention."""

OWN_NAMES: dict[str, tuple[str, ...]] = {
    "mask": ("naive", "math", "flash", "efficient", "cudnn", "sdpa"),
    "backends": ("math", "flash", "efficient", "cudnn", "sdpa", "flex"),
    "windowed": ("sdpa", "windowed"),
    "kv_int8": ("sdpa", "quantised"),
    "model": ("eager", "sdpa"),
    "flops": ("eager",),
    "calibrate": (),
    "cpu": (),
    "all": (),
}
"""What an experiment can run, where that is not every kind of attention by name."""
NO_CALLS = ("quantised", "eager")
"""Names that are no function of Q, K and V, and so run in no other experiment."""

CACHES = ("cold", "warm")
"""Whether a cache of the device may hold the inputs from one call to the next."""

DTYPES = ("fp64", "fp32", "bf16", "fp16")

# Bounds on what a web page or a file may ask for; the memory guard of the worker decides what fits.
MAX_LENGTH = 2**24
MAX_BATCH = 65_536
MAX_HEADS = 4096
MAX_HEAD_DIM = 4096
MAX_CELLS = 64
MAX_THREADS = 4096
MAX_REPEATS = 100
MAX_SAMPLES = 10_000  # of one cell

device_name = pattern(
    r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?", "auto, cpu, mps, cuda, xpu or a numbered one such as cuda:1"
)


@dataclass(frozen=True)
class JobSpec(Record):
    """One measuring job.

    Args:
        experiment: one of EXPERIMENTS.
        device: "auto" (an accelerator where there is one), "cpu", "cuda", "cuda:1", "mps" or "xpu".
        dtype: "auto" (what the device is good at), "fp64", "fp32", "bf16" or "fp16".
        lengths: key/value lengths T, in tokens.
        batches: batch sizes.
        heads: query heads.
        kv_heads: key/value heads; they divide heads.
        head_dim: elements of one head.
        causal: whether the causal mask applies.
        implementations: names to measure; empty means all that exist on the device.
        rounds: timed rounds, each of which visits every implementation once.
        seed: of the random inputs.
        threads: CPU threads; None means all.
        quick: leave out what takes long: fewer cells, no compiling.
        warm_heap: keep freed CPU memory for the next call instead of paying page faults again.
        model: whose modules the flops experiment counts, a name of the catalogue.
        cache: "auto" (as the experiment means it: cold for decode), or "cold" or "warm" for all its cells.
        repeats: how many processes, one after the other, time every cell anew.

    Raises:
        ValueError: a value is not allowed.
    """

    experiment: str
    device: str = "auto"
    dtype: str = "auto"
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    batches: tuple[int, ...] = (1,)
    heads: int = 12
    kv_heads: int = 12
    head_dim: int = 64
    causal: bool = True
    implementations: tuple[str, ...] = ()
    rounds: int = 9
    seed: int = 0
    threads: int | None = None
    warm_heap: bool = True
    quick: bool = False
    model: str = "gpt2"
    cache: str = "auto"
    repeats: int = 1

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "experiment": one_of(*EXPERIMENTS),
        "device": device_name,
        "dtype": one_of("auto", *DTYPES),
        "lengths": many(whole(1, MAX_LENGTH), MAX_CELLS, least=1),
        "batches": many(whole(1, MAX_BATCH), MAX_CELLS, least=1),
        "heads": whole(1, MAX_HEADS),
        "kv_heads": whole(1, MAX_HEADS),
        "head_dim": whole(1, MAX_HEAD_DIM),
        "causal": flag,
        "implementations": many(one_of(*IMPLEMENTATIONS), len(IMPLEMENTATIONS)),
        "rounds": whole(1, 1000),
        "seed": whole(0),
        "threads": optional(whole(1, MAX_THREADS)),
        "warm_heap": flag,
        "quick": flag,
        "model": pattern(r"[a-z0-9][a-z0-9._-]{0,59}", "the name of a model, such as gpt2 or llama-3-8b"),
        "cache": one_of("auto", *CACHES),
        "repeats": whole(1, MAX_REPEATS),
    }

    def __post_init__(self) -> None:
        """Check the fields, and that they fit each other."""
        super().__post_init__()
        if self.experiment == "cpu" and self.device == "auto":
            object.__setattr__(self, "device", "cpu")
        if self.experiment == "cpu" and self.device != "cpu":
            raise ValueError(f"device is {self.device!r}; the experiment cpu measures on the cpu")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads is {self.kv_heads}; it must divide heads, which is {self.heads}")
        if self.rounds * self.repeats > MAX_SAMPLES:
            most = MAX_SAMPLES // self.rounds
            raise ValueError(
                f"repeats is {self.repeats}; with {self.rounds:,} rounds it must be at most {most:,}"
            )
        for name in ("lengths", "batches", "implementations"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} is {', '.join(map(str, values))}; each value may stand there once")


# What each experiment measures when nothing else is said. Decode: contexts a single token attends to, and
# some batch sizes; self-test: small enough for a few seconds on two cores.
DEFAULTS: dict[str, dict[str, Any]] = {
    "memory": {},
    "scaling": {},
    "decode": {"lengths": (128, 1024, 4096), "batches": (1, 4, 16)},
    "selftest": {"lengths": (128, 256, 512, 1024), "implementations": ("naive", "sdpa"), "rounds": 5},
    "calibrate": {},
    "causal": {},
    "mask": {"lengths": (512, 2048)},
    "windowed": {"lengths": (1024, 4096)},
    "gqa": {"lengths": (4096,), "batches": (1, 8)},
    "split_kv": {"lengths": (1024, 4096, 16384)},
    "accuracy": {"lengths": (512,)},
    "kv_int8": {"lengths": (1024,)},
    "backends": {"lengths": (128,)},
    "first_call": {"lengths": (512,), "implementations": ("naive", "sdpa")},
    "training": {"lengths": (256, 512, 1024)},
    "model": {"lengths": (128, 512, 1024)},
    "flops": {"lengths": (256, 1024, 4096)},
    "cpu": {"device": "cpu"},
    "all": {},
}


def default_spec(experiment: str, **changes: Any) -> JobSpec:
    """Return the job that an experiment's name alone stands for, with some fields changed.

    Args:
        experiment: one of EXPERIMENTS.
        changes: fields of JobSpec; None means the default.

    Raises:
        ValueError: a value is not allowed, or the experiment cannot run an implementation.
    """
    stated = {name: value for name, value in changes.items() if value is not None}
    spec = JobSpec(experiment, **{**DEFAULTS.get(experiment, {}), **stated})
    able = runnable(experiment)
    unable = [name for name in spec.implementations if name not in able]
    if unable:
        allowed = f"it must be of {', '.join(able)}" if able else "it must be left out"
        raise ValueError(f"implementations is {', '.join(unable)}; for {experiment} {allowed}")
    return spec


def runnable(experiment: str) -> tuple[str, ...]:
    """List the implementations that an experiment can run, on some device.

    Args:
        experiment: one of EXPERIMENTS.
    """
    every = tuple(name for name in IMPLEMENTATIONS if name not in NO_CALLS)
    return OWN_NAMES.get(experiment, every)
