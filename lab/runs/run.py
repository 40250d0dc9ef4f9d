"""One run: a job's specification, the machine it ran on, and the points it brought."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from lab.runs.checks import (
    Check,
    Record,
    grid,
    many,
    moment,
    one_of,
    optional,
    pattern,
    rate,
    record,
    table_of,
    text,
    titles,
    whole,
)
from lab.runs.point import Point
from lab.runs.spec import MAX_THREADS, JobSpec

SCHEMA_VERSION = 2
"""Raised when a field is added that an older lab would not know; lab/runs/migrations.py says what each one brought."""
RUN_STATUSES = ("running", "finished", "cancelled", "crashed", "out_of_memory", "refused")
RUN_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
MAX_POINTS = 20_000

_environment = table_of(
    **dict.fromkeys(("device_kind", "device_name", "dtype", "torch", "os"), optional(text(400))),
    threads=optional(whole(1, MAX_THREADS)),
)
_ceilings = table_of(flops_per_s=optional(rate), copy_bytes_per_s=optional(rate), how=optional(text()))


@dataclass(frozen=True, kw_only=True)
class Run(Record):
    """What one job brought.

    Args:
        run_id: also the name of its file.
        spec: what was asked for.
        schema: version of this record.
        environment: device, driver, torch, threads, system, seed, allocator policy; no host, user or path.
        ceilings: measured rates, such as "flops_per_s" and "copy_bytes_per_s"; None if not taken.
        points: one per cell.
        tables: published figures that are not points (recorded runs only).
        status: one of RUN_STATUSES.
        message: why it ended as it did, in words.
        warnings: everything else worth knowing, in words.
        created_utc, finished_utc: ISO 8601, to the second; None where a reference run states none.
        recorded_on: the device of a bundled reference run; None for a run of this machine.
        source: where a reference run was published.
        title: what a reference run is called where several are of one device.

    Raises:
        ValueError: a value is not allowed.
    """

    run_id: str
    spec: JobSpec
    schema: int = SCHEMA_VERSION
    environment: dict[str, Any] = field(default_factory=dict)
    ceilings: dict[str, Any] | None = None
    points: tuple[Point, ...] = ()
    tables: dict[str, Any] = field(default_factory=dict)
    status: str = "running"
    message: str | None = None
    warnings: tuple[str, ...] = ()
    created_utc: str | None
    finished_utc: str | None = None
    recorded_on: str | None = None
    source: str | None = None
    title: str | None = None

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "run_id": pattern(RUN_ID, "letters, digits, dots, dashes and underscores"),
        "spec": record(JobSpec),
        "schema": whole(1),
        "environment": _environment,
        "ceilings": optional(_ceilings),
        "points": many(record(Point), MAX_POINTS),
        "tables": table_of(columns=titles, rows=grid),
        "status": one_of(*RUN_STATUSES),
        "message": optional(text()),
        "warnings": many(text(), 1000),
        "created_utc": optional(moment),
        "finished_utc": optional(moment),
        "recorded_on": optional(text(200)),
        "source": optional(text(1000)),
        "title": optional(text(100)),
    }

    @property
    def device_key(self) -> str:
        """What "the last run for this device" compares: the kind and name of the device."""
        kind = self.environment.get("device_kind") or self.spec.device
        name = self.environment.get("device_name")
        return f"{kind}: {name}" if name else str(kind)

    @property
    def device_label(self) -> str:
        """The device in words, for badges and captions."""
        return self.recorded_on or str(self.environment.get("device_name") or self.spec.device)

    def with_point(self, point: Point) -> Run:
        """Return the run with a point added, or merged into the one of the same cell."""
        merged = {known.key: known for known in self.points}
        merged[point.key] = merged[point.key].merge(point) if point.key in merged else point
        return replace(self, points=tuple(merged.values()))

    def with_warning(self, warning: str) -> Run:
        """Return the run with a warning added, unless it has it already."""
        return self if warning in self.warnings else replace(self, warnings=(*self.warnings, warning))

    def ended(self, status: str, message: str | None = None) -> Run:
        """Return the run as ended now."""
        return replace(self, status=status, message=message, finished_utc=utc_now())


def utc_now() -> str:
    """Return the time now as run files write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run(spec: JobSpec) -> Run:
    """Return an empty run that starts now, with an identifier nobody else has."""
    now = utc_now()
    stamp = now.replace(":", "").replace("Z", "")
    return Run(run_id=f"{stamp}-{spec.experiment}-{secrets.token_hex(3)}", spec=spec, created_utc=now)
