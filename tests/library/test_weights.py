"""Headers of weight files, and their totals."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.safetensors_headers import MAX_HEADER_BYTES, read_tensors
from mlxctl.library.weights import sum_tensors

from .weight_files import packed, write_weights


def test_parameters_of_a_float_model(tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {"a.weight": ("BF16", (30, 20)), "a.bias": ("BF16", (30,))})
    weights = sum_tensors(read_tensors(tmp_path), {})
    assert (weights.num_parameters, weights.num_bytes, weights.float_bytes) == (630, 1260, 2)
    assert weights.bits_per_weight == 16


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_packed_weights_count_unpacked(tmp_path: Path, bits: int, group_size: int) -> None:
    write_weights(tmp_path / "model.safetensors", packed("a", 256, 512, bits=bits, group_size=group_size))
    weights = sum_tensors(read_tensors(tmp_path), {"quantization": {"bits": bits, "group_size": group_size}})
    assert weights.num_parameters == 256 * 512
    assert weights.bits_per_weight == bits + 32 / group_size


def test_layers_may_have_different_quantization(tmp_path: Path) -> None:
    tensors = {**packed("a", 64, 128), **packed("b", 64, 128, bits=8, group_size=32)}
    write_weights(tmp_path / "model.safetensors", tensors)
    config = {"quantization": {"bits": 4, "group_size": 64, "b": {"bits": 8, "group_size": 32}}}
    assert sum_tensors(read_tensors(tmp_path), config).num_parameters == 2 * 64 * 128


def test_decode_bytes_exclude_idle_experts_and_embedding_table(tmp_path: Path) -> None:
    tensors = {
        "model.embed_tokens.weight": ("BF16", (1000, 10)),
        "lm_head.weight": ("BF16", (1000, 10)),
        "model.layers.0.mlp.switch_mlp.up_proj.weight": ("BF16", (8, 100, 10)),
        "model.layers.0.mlp.shared_expert.up_proj.weight": ("BF16", (100, 10)),
        "vision_tower.patch.weight": ("BF16", (500, 10)),
    }
    write_weights(tmp_path / "model.safetensors", tensors)
    weights = sum_tensors(read_tensors(tmp_path), {"num_experts": 8, "num_experts_per_tok": 2})
    assert weights.decode_bytes == 2 * (10_000 + 2000 + 1000)
    assert weights.has_vision_tower
    assert sum_tensors(read_tensors(tmp_path), {}).decode_bytes is None


def test_tied_embedding_counts_as_output_head(tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {"model.embed_tokens.weight": ("BF16", (1000, 10))})
    assert sum_tensors(read_tensors(tmp_path), {}).decode_bytes == 20_000


def test_truncated_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_weights(file, {"a": ("F32", (100,))})
    whole = file.read_bytes()
    for length in (0, 4, 20, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(BrokenModel, match="is truncated") as raised:
            read_tensors(tmp_path)
        assert "\n" not in str(raised.value)


def test_pipe_in_place_of_weights_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(BrokenModel, match="is not a regular file"):
        read_tensors(tmp_path)


def test_too_large_header_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER_BYTES + 100)
    with pytest.raises(BrokenModel, match="header of"):
        read_tensors(tmp_path)


@given(
    header=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        )
        .map(repr)
        .map(str.encode),
        st.sampled_from(
            [
                b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
                b'{"a": {"dtype": 1}}',
                b"[" * 9999,
            ]
        ),
    )
)
def test_arbitrary_header_is_read_or_a_one_line_error(
    tmp_path_factory: pytest.TempPathFactory, header: bytes
) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    raised = ""
    try:
        read_tensors(directory)
    except BrokenModel as error:
        raised = str(error)
    assert "\n" not in raised
