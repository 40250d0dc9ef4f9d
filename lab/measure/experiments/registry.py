"""The experiments, one file each: which cells they visit and how.

An experiment is a class with a `name`; `run` is given a job, a part ("time" or "memory") and where to tell.
"""

from __future__ import annotations

from lab.measure.experiments.accuracy import Accuracy
from lab.measure.experiments.backends import Backends
from lab.measure.experiments.base import Experiment
from lab.measure.experiments.calibrate import Calibrate
from lab.measure.experiments.causal import Causal
from lab.measure.experiments.decode import Decode
from lab.measure.experiments.first_call import FirstCall
from lab.measure.experiments.flops import Flops
from lab.measure.experiments.gqa import Gqa
from lab.measure.experiments.kv_int8 import KvInt8
from lab.measure.experiments.mask import Mask
from lab.measure.experiments.memory import Memory
from lab.measure.experiments.model import Model
from lab.measure.experiments.scaling import Scaling
from lab.measure.experiments.selftest import Selftest
from lab.measure.experiments.split_kv import SplitKv
from lab.measure.experiments.suite import Cpu, Everything
from lab.measure.experiments.training import Training
from lab.measure.experiments.windowed import Windowed

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Memory(),
        Scaling(),
        Decode(),
        Selftest(),
        Calibrate(),
        Causal(),
        Mask(),
        Windowed(),
        Gqa(),
        SplitKv(),
        Accuracy(),
        KvInt8(),
        Backends(),
        FirstCall(),
        Training(),
        Model(),
        Flops(),
    )
}
EXPERIMENTS |= {suite.name: suite for suite in (Cpu(EXPERIMENTS), Everything(EXPERIMENTS))}
