from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.storage import ALIASES, STORAGE, StorageType, storage_type, stored_bytes

# (elements, bytes) of a block as llama.cpp's gguf package 0.19 lists them (GGML_QUANT_SIZES).
GGUF_SIZES = {
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
    "iq4_nl": (32, 18),
    "q1_0": (128, 18),
    "fp32": (1, 4),
    "fp16": (1, 2),
    "bf16": (1, 2),
    "fp64": (1, 8),
}


@pytest.mark.parametrize(("name", "sizes"), GGUF_SIZES.items())
def test_block_types_are_those_of_ggml(name, sizes):
    kind = STORAGE[name]
    assert (kind.block_elements, kind.block_bytes, kind.row_bytes) == (*sizes, 0)


@pytest.mark.parametrize("kind", STORAGE.values(), ids=lambda kind: kind.name)
def test_every_type_has_a_source_and_its_own_name(kind):
    assert kind.source
    assert kind.what
    assert STORAGE[kind.name] is kind
    assert all(target in STORAGE for target in ALIASES.values())


def test_scales_are_counted():
    assert STORAGE["q8_0"].bytes_per_element(128) == Fraction(34, 32)
    assert STORAGE["int8"].row(128) == 128 + 4
    assert STORAGE["int4"].row(128) == 64 + 4
    assert STORAGE["q8_kv"].row(576) == 576 + 8
    assert STORAGE["fp8_block"].row(512) + STORAGE["bf16"].row(64) == 656  # DeepSeek-V3.2, a token of a layer


def test_a_row_that_is_not_whole_blocks_is_refused_as_llama_cpp_does():
    with pytest.raises(ValueError, match="multiple of the 32-element block of q4_0, got a row of 80"):
        STORAGE["q4_0"].row(80)


@pytest.mark.parametrize("elements", [0, -32, 1.5, True, None])
def test_a_row_needs_a_whole_number_of_elements(elements):
    with pytest.raises(ValueError, match="elements must be a whole number"):
        STORAGE["fp16"].row(elements)


@pytest.mark.parametrize(
    ("alias", "name"), [("f16", "fp16"), ("Q8_0", "q8_0"), ("q8_KV", "q8_kv"), ("bfloat16", "bf16")]
)
def test_other_names_find_the_same_type(alias, name):
    assert storage_type(alias) is STORAGE[name]


def test_a_type_of_your_own_is_taken_as_it_is():
    mine = StorageType("mine", 16, 9, "nvfp4: 16 numbers and an fp8 scale")
    assert storage_type(mine) is mine
    assert stored_bytes(64, mine) == 36


@pytest.mark.parametrize("name", ["fp15", "", None, 16])
def test_an_unknown_type_is_refused_with_the_list(name):
    with pytest.raises(ValueError, match=r"storage type must be one of .*q4_0.*got"):
        storage_type(name)


def test_stored_bytes_needs_the_row_where_a_row_carries_a_scale():
    with pytest.raises(ValueError, match="row_elements must be given for int8"):
        stored_bytes(1024, "int8")
    assert stored_bytes(1024, "int8", row_elements=128) == 8 * 132
    with pytest.raises(ValueError, match="multiple of 128 for int8, got 1000"):
        stored_bytes(1000, "int8", row_elements=128)


def test_stored_bytes_over_an_array():
    elements = np.array([32, 64, 3200])
    result = stored_bytes(elements, "q5_1")
    assert result.dtype == np.int64
    assert result.tolist() == [24, 48, 2400]
    with pytest.raises(ValueError, match="multiple of 32"):
        stored_bytes(np.array([32, 33]), "q5_1")


def test_stored_bytes_stays_exact_for_integers_of_any_size():
    assert stored_bytes(32 * 10**30, "q4_0") == 18 * 10**30


@given(st.sampled_from(sorted(STORAGE)), st.integers(1, 64), st.integers(1, 1000))
def test_bytes_are_whole_positive_and_linear_in_rows(name, blocks, rows):
    kind = STORAGE[name]
    row = blocks * kind.block_elements
    total = stored_bytes(rows * row, name, row_elements=row)
    assert isinstance(total, int)
    assert total == rows * kind.row(row) > 0
    assert total == rows * row * kind.bytes_per_element(row)
