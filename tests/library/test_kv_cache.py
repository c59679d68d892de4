"""The estimated memory of a conversation equals that of mlx-lm's caches."""

from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes, load_model

from mlxctl.library.kv_cache import CacheShape, find_cache_shape
from tests import tiny_models
from tests.tiny_models.families import FAMILIES

PLAIN: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "vocab_size": 128, "rope_theta": 10_000.0,
    "max_position_embeddings": 4096, "tie_word_embeddings": True,
}  # fmt: skip
TURNS = ["sliding_attention", "full_attention"] * 2
LATENT = {
    **PLAIN, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "q_lora_rank": 16, "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "num_key_value_heads": 4,
}  # fmt: skip
GEMMA4 = {
    **PLAIN,
    "num_hidden_layers": 10,
    "global_head_dim": 32,
    "sliding_window": 32,
    "vocab_size_per_layer_input": 128,
}
DELTA = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
}  # fmt: skip
GEMMA3 = {
    "model_type": "gemma3_text",
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "intermediate_size": 64,
    "sliding_window": 32,
}
ROPE = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}
GPT2 = {
    "n_ctx": 512,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "n_positions": 512,
    "layer_norm_epsilon": 1e-5,
    "vocab_size": 128,
}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gemma2": {**PLAIN, "sliding_window": 32, "query_pre_attn_scalar": 16, "layer_types": TURNS},
    "llama": {**PLAIN, "sliding_window": 32, "layer_types": TURNS},
    "gpt_oss": {
        **PLAIN,
        "sliding_window": 32,
        "layer_types": TURNS,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "cohere2": {**PLAIN, "sliding_window": 32, "sliding_window_pattern": 4},
    "deepseek_v3": LATENT,
    "gemma3": {"vocab_size": 128, "text_config": GEMMA3},
    "gemma4_text": {**GEMMA4, "num_kv_shared_layers": 5, "hidden_size_per_layer_input": 8},
    "qwen3_5": {"text_config": {**PLAIN, **DELTA, "model_type": "qwen3_5_text", "rope_parameters": ROPE}},
}


def held_bytes(model: Any, num_tokens: int) -> int:
    """Return the size of a model's caches after `num_tokens` tokens.

    A prompt, and one decoded token.
    """
    cache = make_prompt_cache(model)
    for tokens in ([1] * (num_tokens - 1), [1]):
        model(mx.array([tokens]), cache=cache)
        mx.eval([layer.state for layer in cache])
    return sum(
        leaf.nbytes for layer in cache for _, leaf in tree_flatten(layer.state) if isinstance(leaf, mx.array)
    )


@pytest.mark.parametrize("model_type", CONFIGURATIONS)
def test_cache_size_from_configuration_matches_mlx_lm(model_type: str) -> None:
    config = {**CONFIGURATIONS[model_type], "model_type": model_type}
    shape = find_cache_shape(model_type, config, float_bytes=4)
    model_class, arguments = _get_classes(config)
    model = model_class(arguments.from_dict(config))
    model.set_dtype(mx.float32)
    assert shape is not None
    assert [shape.num_bytes(256), shape.num_bytes(512)] == [held_bytes(model, 256), held_bytes(model, 512)]


@pytest.mark.parametrize("name", ["qwen3", "llama3", "gemma3", "lfm2", "qwen3_next", "mamba", "mistral"])
def test_cache_size_of_tiny_models_matches_the_estimate(name: str) -> None:
    config = FAMILIES[name].config
    shape = find_cache_shape(config["model_type"], config, float_bytes=4)
    model, _ = load_model(tiny_models.model(name))
    assert shape is not None
    assert shape.num_bytes(512) == held_bytes(model, 512)


@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        ("kimi_linear", PLAIN),
        ("falcon_h1", PLAIN),
        ("qwen3", {"num_hidden_layers": 4}),
        ("qwen3", {**PLAIN, "num_hidden_layers": "four"}),
        ("new_hybrid", {**PLAIN, "mamba_d_state": 16}),
        ("new_latent", LATENT),
        ("olmo3", {**PLAIN, "sliding_window": 32}),
        ("llama", {**PLAIN, "layer_types": TURNS}),
        ("llama", {**PLAIN, "layer_types": ["a kind of tomorrow"] * 4, "ssm_state": 1}),
    ],
)
def test_unknown_layers_give_no_cache_size(model_type: str, config: dict[str, Any]) -> None:
    assert find_cache_shape(model_type, config, float_bytes=2) is None


def test_unknown_recurrent_state_has_unknown_size() -> None:
    config = {**PLAIN, "layer_types": ["mamba", "attention"] * 2}
    assert find_cache_shape("granitemoehybrid", config, float_bytes=2) == CacheShape(
        bytes_per_token=256, state_bytes=None
    )
