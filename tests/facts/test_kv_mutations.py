"""Break the cost model in the ways public calculators do, and see the rows of kv_cache_cases.json fail."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from lab.cost import cache, cache_rows, paging
from lab.cost.storage import StorageType
from tests.facts.classes import ERROR, INFERRED, KV_CACHE, TESTS, class_of
from tests.facts.kv_rows import RECOMPUTE

ROWS = {row["id"]: row for row in json.loads(Path(__file__).with_name("kv_cache_cases.json").read_text())}
CLASS = class_of(KV_CACHE)
NOMINAL_BITS = {"q8_0": 8, "q5_1": 5, "q5_0": 5, "q4_0": 4, "q1_0": 1, "q8_kv": 8, "fp8_block": 8}

token_rows, layers_of, row_bytes = cache.token_rows, cache.layers_of, StorageType.row
page_bytes = paging._page_bytes


def forget_v(patch):
    patch.setattr(cache, "token_rows", lambda *a, **k: (token_rows(*a, **k)[0], 0))


def ignore_grouping(patch):
    def rows(attention, *args, **options):
        return token_rows(replace(attention, kv_heads=attention.heads), *args, **options)

    patch.setattr(cache, "token_rows", rows)


def ignore_windows(patch):
    def layers(attention, *args, **options):
        return layers_of(replace(attention, window=None), *args, **options)

    patch.setattr(cache, "layers_of", layers)


def ignore_scales(patch):
    def row(kind, elements):
        bits = NOMINAL_BITS.get(kind.name)
        return row_bytes(kind, elements) if bits is None else elements * bits // 8

    patch.setattr(StorageType, "row", row)


def wrong_width(patch):
    patch.setattr(StorageType, "row", lambda kind, elements: 2 * row_bytes(kind, elements))


def expand_latents(patch):
    def rows(attention, *args, **options):
        return token_rows(attention, *args, **{**options, "form": "expanded"})

    patch.setattr(cache, "token_rows", rows)


def one_head_dim(patch):
    def rows(attention, *args, **options):
        return token_rows(replace(attention, head_dim_v=attention.head_dim), *args, **options)

    patch.setattr(cache, "token_rows", rows)


def ignore_ranks(patch):
    patch.setattr(cache_rows, "rank_heads", lambda kv_heads, tp: kv_heads)


def double_blocks(patch):
    patch.setattr(paging, "_page_bytes", lambda layers, block_tokens: 2 * page_bytes(layers, block_tokens))


# Mutation: rows of its kind that must catch it.
CATCHERS = {
    forget_v: "A05 A21 A25 A30 A35 A44 A51 A52 A55 A62 A65c A68 A84 A88a2",
    ignore_grouping: "A10 A14 A21 A25 A30 A51 A52 A62 A65c A68 A84",
    ignore_windows: "A51 A52 A53 A55 A59 A68",
    ignore_scales: "A14 A22 A25 A30 A32 A49 A55 A60c A60d A61d A79 A80",
    wrong_width: "A05 A21 A41 A51 A62 A65c A76 A84 A91",
    expand_latents: "A41 A44 A47 A49 A69 A79 A80 A92a A92b",
    one_head_dim: "A35 A36 A38 A81",
    ignore_ranks: "A76 A86 A87 A74",
    double_blocks: "A62 A63 A65c A65d A78",
}


def failing(rows):
    """Rows that no longer agree; a recomputation that refuses counts as failed."""
    found = set()
    for row in rows:
        try:
            figure = Fraction(RECOMPUTE[row["id"]](row))
        except (ValueError, ZeroDivisionError):
            found.add(row["id"])
            continue
        if abs(figure / Fraction(str(row["expected"])) - 1) > Fraction(str(row["tolerance"])):
            found.add(row["id"])
    return found


SOUND = [row for row_id, row in ROWS.items() if CLASS[row_id] != ERROR]


@pytest.mark.parametrize("mutation", CATCHERS, ids=lambda mutation: mutation.__name__)
def test_rows_catch_the_mutation(monkeypatch, mutation):
    assert failing(SOUND) == set()
    mutation(monkeypatch)
    assert set(CATCHERS[mutation].split()) <= failing(SOUND)


def test_every_row_that_tests_is_caught_by_some_mutation():
    caught = set()
    for mutation in CATCHERS:
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            caught |= failing(SOUND)
    assert {row_id for row_id in ROWS if CLASS[row_id] in (TESTS, INFERRED)} <= caught


PLAIN = [row for row in SOUND if "head_dim" in row["inputs"] and row["id"] not in ("A76", "A90")]


@pytest.mark.parametrize("row", PLAIN, ids=[row["id"] for row in PLAIN])
def test_doubling_any_size_breaks_a_plain_row(row):
    """No tolerance is so wide that a factor 2 in one input passes (A90, a bound, has a test of its own)."""
    for name in ("n_layers", "n_heads", "n_kv_heads", "head_dim", "tokens", "tokens_allocated"):
        if name in row["inputs"]:
            changed = {**row, "inputs": {**row["inputs"], name: 2 * row["inputs"][name]}}
            assert failing([changed]) == {row["id"]}, name
