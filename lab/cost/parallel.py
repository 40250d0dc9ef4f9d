"""Parallelism on paper: what each rank holds, computes of attention, and sends in one pass.

Three ways to spread a model, each a `Plan` of ranks: by matrices (tensor_parallel.py), by layers
(pipeline_parallel.py), by tokens (context_parallel.py). Communication is that of one forward pass.
"""

from lab.cost.context_parallel import context_parallel, token_ranges
from lab.cost.pipeline_parallel import idle_share, pipeline_parallel, stage_orders
from lab.cost.ranks import Message, Plan, Rank, all_gather_bytes, all_reduce_bytes
from lab.cost.tensor_parallel import tensor_parallel

__all__ = [
    "Message",
    "Plan",
    "Rank",
    "all_gather_bytes",
    "all_reduce_bytes",
    "context_parallel",
    "idle_share",
    "pipeline_parallel",
    "stage_orders",
    "tensor_parallel",
    "token_ranges",
]
