"""One decode step: a single query for each sequence against its cache of keys and values.

The step reads all of K and V once and computes little, so the bytes of the cache over the time is the
bandwidth it reached. In a model the caches of the other layers pass through in between: inputs rotate, so
that no cache of the processor holds them from one call to the next.
"""

from __future__ import annotations

from typing import ClassVar

from lab.cost.calls import AttentionCall
from lab.measure.experiments.base import Experiment
from lab.measure.job import Job


class Decode(Experiment):
    """Time and peak memory of attention for one new token per sequence, with a cold cache."""

    name: ClassVar[str] = "decode"
    cold_cache: ClassVar[bool] = True

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make one shape: a single query against `length` keys.

        Args:
            job: heads, head_dim, dtype.
            batch: sequences.
            length: keys in the cache, the new token's included.

        Returns:
            The call.
        """
        return job.call(batch=batch, q_len=1, kv_len=length)
