"""Models of the catalogue as transformers builds them, without a single weight: their FLOPs, counted part by part.

On PyTorch's meta device a tensor has a shape and no numbers, so a model of any size runs in a second; PyTorch's
FLOP counter sees every matrix product that its modules ask for. Eager attention is counted: it multiplies all
pairs and masks afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

PROJECTIONS, CORE, FEED_FORWARD, HEAD = "projections", "attention core", "feed-forward", "LM head"
PARTS = (PROJECTIONS, CORE, FEED_FORWARD, HEAD)
ALL_EXPERTS = ("llama4_text",)
"""Families whose modules compute every expert for every token, whichever the router chose."""
SAME_AS = {"kimi_k2": "deepseek_v3"}
"""Model types whose modules are another type's."""


class MetaModel:
    """A causal language model on the meta device."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Build the modules.

        Args:
            config: of the model, as in its config.json.

        Raises:
            ImportError: transformers is not installed.
        """
        import transformers

        values = dict(config)
        kind = values.pop("model_type")
        settings = transformers.AutoConfig.for_model(SAME_AS.get(kind, kind), **values)
        settings._experts_implementation = "batched_mm"  # the experts a token uses, and no others
        with torch.device("meta"):
            self.module = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="eager")
        self.module.eval()
        self._cache_name = "past_key_values"  # renamed within transformers 5

    def prefill(self, batch: int, tokens: int) -> tuple[dict[str, int], Any]:
        """Count a pass over whole prompts.

        Args:
            batch: sequences.
            tokens: of each.

        Returns:
            FLOPs by part, and the cache.
        """
        return self._count(batch, tokens, None)

    def decode(self, batch: int, cache: Any) -> dict[str, int]:
        """Count one new token for every sequence.

        Args:
            batch: sequences.
            cache: of the prefill before it; it grows by the token.

        Returns:
            FLOPs by part.
        """
        return self._count(batch, 1, cache)[0]

    def _count(self, batch: int, tokens: int, cache: Any) -> tuple[dict[str, int], Any]:
        ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")
        with FlopCounterMode(display=False) as counter:
            output = self.module(ids, use_cache=True, **({} if cache is None else {self._cache_name: cache}))
        self._cache_name = "cache" if hasattr(output, "cache") else "past_key_values"
        every = {name: sum(found.values()) for name, found in counter.get_flop_counts().items()}
        return self._by_part(every, counter.get_total_flops()), getattr(output, self._cache_name)

    def _by_part(self, every: Mapping[str, int], total: int) -> dict[str, int]:
        """Sort what each module counted: a module's own products are those of none of its children."""
        root = type(self.module).__name__
        attention = children = 0
        for name, module in self.module.named_modules():
            if type(module).__name__.endswith("Attention"):
                attention += every.get(f"{root}.{name}", 0)
                children += sum(
                    every.get(f"{root}.{name}.{child}", 0) for child, _ in module.named_children()
                )
        head_module = self.module.get_output_embeddings()
        head = sum(
            every.get(f"{root}.{name}", 0)
            for name, module in self.module.named_modules()
            if module is head_module
        )
        return {
            PROJECTIONS: children,
            CORE: attention - children,
            FEED_FORWARD: total - attention - head,
            HEAD: head,
        }
