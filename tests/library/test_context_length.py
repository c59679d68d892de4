"""The context length, from real configurations."""

from typing import Any

import pytest

from mlxctl.library.context_length import DEFAULT_CONTEXT_LENGTH, find_context_length


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 40_960}, 40_960),
        ({"n_positions": 1024}, 1024),
        ({"max_position_embeddings": 8192, "max_seq_len": 2048}, 2048),
        ({"text_config": {"max_position_embeddings": 131_072}, "max_position_embeddings": 77}, 131_072),
        ({"max_position_embeddings": 4096.0}, 4096),
        ({"max_position_embeddings": True, "n_ctx": 512}, 512),
        ({"max_position_embeddings": 0}, DEFAULT_CONTEXT_LENGTH),
        ({"max_position_embeddings": "long"}, DEFAULT_CONTEXT_LENGTH),
        ({"text_config": None}, DEFAULT_CONTEXT_LENGTH),
        ({}, DEFAULT_CONTEXT_LENGTH),
    ],
)
def test_context_length_is_read_from_every_known_field(config: dict[str, Any], expected: int) -> None:
    assert find_context_length(config, {}) == expected


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 131_072),
        ({"type": "dynamic", "factor": 2}, 65_536),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}, 131_072),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 32_768),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32_768),
        ({"type": "longrope", "factor": 32}, 32_768),
        ({"rope_type": "default", "rope_theta": 1e6}, 32_768),
        ({"type": "linear", "factor": "4"}, 32_768),
        ({"type": "linear", "factor": float("inf")}, 32_768),
        ([1], 32_768),
        (None, 32_768),
    ],
)
def test_rope_scaling_multiplies_unscaled_lengths(scaling: Any, expected: int) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        assert find_context_length({"max_position_embeddings": 32_768, key: scaling}, {}) == expected


def test_gemma3_length_already_includes_scaling() -> None:
    config = {
        "model_type": "gemma3_text",
        "max_position_embeddings": 131_072,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    assert find_context_length(config, {}) == 131_072


@pytest.mark.parametrize(
    ("config", "limit", "expected"),
    [
        ({"max_position_embeddings": 131_072}, 32_768, 32_768),
        ({"max_position_embeddings": 40_960}, 131_072, 40_960),
        ({"max_position_embeddings": 4096}, 1e30, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}}, 4096, 16_384),
        ({}, 2048, 2048),
        ({}, 1e30, DEFAULT_CONTEXT_LENGTH),
    ],
)
def test_tokenizer_limit_caps_context_length(config: dict[str, Any], limit: float, expected: int) -> None:
    assert find_context_length(config, {"model_max_length": limit}) == expected
