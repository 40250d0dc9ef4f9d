"""Where a decode step of latent attention stands under a roof."""

from dataclasses import replace

from lab.cost import catalog
from lab.view import roofline
from tests.view.test_limits_pages import _scene


def test_a_decode_step_of_latent_attention_reads_the_latent() -> None:
    scene = replace(_scene(), model=catalog.model("deepseek-v3"))
    card = roofline.roofs(scene, "h100-sxm", None, "bf16")
    call = roofline.shape(scene, roofline.DECODE, 4096, "bf16", "cuda", causal=True)
    attention = roofline.latent(scene, roofline.DECODE, card)
    assert attention is not None
    (term,) = roofline.place(roofline.DECODE, card, call, attention).bound.terms
    rows = 4096 * attention.latent.cached_elements_per_token * 2
    assert rows < term.bytes_moved < 1.5 * rows  # one row a token, and the queries and outputs of all heads
    assert roofline.latent(scene, roofline.FUSED, card) is None
    assert roofline.latent(_scene(), roofline.DECODE, card) is None
