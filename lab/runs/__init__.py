"""What happened: job specifications, points and runs, their JSON, and the folder they are kept in. No torch.

spec.py what is asked for, point.py one cell, run.py one job, store.py the files and migrations.py their older
schemas, reference.py and published.py the bundled runs, calibrations.py the rates that runs hold, readings/ what a
run says, exercises.py what runs say of the chapter's exercises, checks.py how values from outside are checked,
privacy.py what must not go into a file.
"""

from lab.runs.point import STATUSES, Point, Timing
from lab.runs.reference import reference_runs
from lab.runs.run import RUN_STATUSES, SCHEMA_VERSION, Run, new_run, utc_now
from lab.runs.spec import DEFAULTS, DTYPES, EXPERIMENTS, IMPLEMENTATIONS, JobSpec, default_spec
from lab.runs.store import (
    RunFileError,
    data_folder,
    from_text,
    latest,
    list_runs,
    load,
    lock_file,
    save,
    to_text,
    unreadable,
)

__all__ = [
    "DEFAULTS",
    "DTYPES",
    "EXPERIMENTS",
    "IMPLEMENTATIONS",
    "RUN_STATUSES",
    "SCHEMA_VERSION",
    "STATUSES",
    "JobSpec",
    "Point",
    "Run",
    "RunFileError",
    "Timing",
    "data_folder",
    "default_spec",
    "from_text",
    "latest",
    "list_runs",
    "load",
    "lock_file",
    "new_run",
    "reference_runs",
    "save",
    "to_text",
    "unreadable",
    "utc_now",
]
