"""The kind of cache of each layer.

All tokens, a window, a fixed-size state, or nothing. The rules are those of mlx-lm's `make_cache` methods,
which decide what is in memory; where a configuration names a window that mlx-lm does not use, all tokens are
cached. A model that matches no rule has no plan.
"""

from collections.abc import Mapping
from typing import Any, Literal

from mlxctl.library.text_config import whole_number

Kept = Literal["all", "window", "state", "nothing"]

# Only these free tokens that leave the window.
_WINDOWED = frozenset(
    {
        "afmoe", "cohere2", "exaone4", "exaone_moe", "flint", "gemma3", "gemma3_text", "gemma3n",
        "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified", "gpt_oss", "laguna", "llama", "mellum",
        "ministral3", "mistral", "mistral3", "olmo3",
    }
)  # fmt: skip
# These use a window only where `layer_types` names one.
_WINDOW_ONLY_IF_NAMED = frozenset({"flint", "llama", "ministral3", "mistral", "mistral3"})
# Their caches have other rules: two caches per layer, repeated layers, heads that differ by layer.
_OWN_RULES = frozenset(
    {
        "afm7", "baichuan_m1", "bailing_hybrid", "bailing_moe_linear", "bailing_moe_v3", "deepseek_v32",
        "deepseek_v4", "deepseek_v41", "falcon_h1", "gear", "glm5_next", "glm_moe_dsa", "hy_v4", "kimi_k3",
        "kimi_linear", "llama4", "llama4_text", "longcat_flash", "longcat_flash_ngram", "mimo_v2_flash",
        "minimax_m3", "minimax_m3_vl", "muse_glimmer", "muse_spark", "nanbeige", "nemotron-nas", "openelm",
        "plamo2", "plamo3", "qwen4_exp", "recurrent_gemma", "step3p5", "step3p7",
    }
)  # fmt: skip
_STATE_ONLY = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv7"})
_BY_NAME: dict[str, Kept] = {
    "full_attention": "all", "attention": "all", "sliding_attention": "window", "linear_attention": "state",
    "conv": "state", "mamba": "state",
}  # fmt: skip
_BY_LETTER: dict[str, Kept] = {"M": "state", "*": "all", "-": "nothing", "E": "nothing"}
# A field with this prefix means layers without attention.
_FOREIGN = ("ssm_", "mamba_", "linear_", "conv_", "rwkv", "lru_", "attn_layer_")


def plan_layers(model_type: str, config: Mapping[str, Any]) -> tuple[Kept, ...] | None:
    """Return the kind of cache of each layer, None when unknown.

    `config` is the language model's part.
    """
    num_layers = whole_number(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if not num_layers or num_layers > 10_000 or model_type in _OWN_RULES:
        return None
    if model_type in _STATE_ONLY:
        return _repeat(("state",), num_layers)
    plan = (
        _named(config)
        or _patterned(config, model_type, num_layers)
        or _uniform(config, model_type, num_layers)
    )
    if plan is None or len(plan) < num_layers:
        return None
    own = num_layers - (whole_number(config, "num_kv_shared_layers") or 0)
    return tuple(
        "all" if kept == "window" and model_type not in _WINDOWED else kept for kept in plan[: max(0, own)]
    )


def _named(config: Mapping[str, Any]) -> tuple[Kept, ...] | None:
    names, letters, chosen = (
        config.get(key) for key in ("layer_types", "hybrid_override_pattern", "full_attn_idxs")
    )
    if (
        isinstance(names, list)
        and names
        and all(isinstance(name, str) and name in _BY_NAME for name in names)
    ):
        return tuple(_BY_NAME[name] for name in names)
    if isinstance(letters, str | list) and letters and all(letter in _BY_LETTER for letter in letters):
        return tuple(_BY_LETTER[letter] for letter in letters)
    if isinstance(chosen, list) and chosen:
        return tuple(
            "all" if number in chosen else "state"
            for number in range(whole_number(config, "num_hidden_layers") or 0)
        )
    return None


def _patterned(config: Mapping[str, Any], model_type: str, num_layers: int) -> tuple[Kept, ...] | None:
    interval = whole_number(config, "full_attention_interval")
    if interval:
        return tuple("all" if (number + 1) % interval == 0 else "state" for number in range(num_layers))
    window = whole_number(config, "sliding_window_pattern") or _USUAL_PATTERN.get(model_type)
    if window:
        return tuple("all" if (number + 1) % window == 0 else "window" for number in range(num_layers))
    period, offset = whole_number(config, "attn_layer_period"), whole_number(config, "attn_layer_offset")
    if period and offset is not None:
        return tuple("all" if number % period == offset else "state" for number in range(num_layers))
    return _repeat(("window", "all"), num_layers) if model_type == "gpt_oss" else None


def _uniform(config: Mapping[str, Any], model_type: str, num_layers: int) -> tuple[Kept, ...] | None:
    """Return a plan with full attention in all layers.

    None if a field contradicts.
    """
    is_open = (
        any(key.startswith(_FOREIGN) for key in config) or model_type in _WINDOWED - _WINDOW_ONLY_IF_NAMED
    )
    return None if is_open else _repeat(("all",), num_layers)


def _repeat(pattern: tuple[Kept, ...], num_layers: int) -> tuple[Kept, ...]:
    return (pattern * num_layers)[:num_layers]


# mlx-lm's defaults.
_USUAL_PATTERN = {
    "gemma3": 6,
    "gemma3_text": 6,
    "cohere2": 4,
    "gemma4": 5,
    "gemma4_text": 5,
    "gemma4_unified": 5,
}
