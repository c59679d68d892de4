"""Which models ranks compute together, and why others are refused. Pure."""

from collections.abc import Mapping
from typing import Any

from mlxctl.ir import ModelSpec, TextGenerationTask

PROVEN_TYPES = frozenset({"llama", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "deepseek_v3"})
"""Architectures whose tests compare the answers of ranks with those of one process."""

# Sizes of a configuration that each rank gets an equal part of.
_SPLIT_SIZES = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
)
# Their keys and values are the same for all heads, and every rank holds them whole.
_LATENT_TYPES = frozenset({"deepseek_v3"})


def ranks_problem(spec: ModelSpec, config: Mapping[str, Any], num_ranks: int) -> str | None:
    """Return why ranks cannot serve a model, for the operator."""
    task = spec.task
    if not isinstance(task, TextGenerationTask):
        return "only text models run on several ranks"
    unproven = {
        "a vision part": task.vision is not None,
        "an audio part": task.audio is not None,
        "code of the model directory (trust_remote_code)": spec.trust_remote_code,
        "quantized keys and values (kv_bits)": task.options.kv_format is not None,
        "a draft model": task.options.draft is not None,
        "an MTP head for speculation": task.options.mtp_head,
    }
    for what, is_used in unproven.items():
        if is_used:
            return f"it has {what}, which does not work on several ranks"
    model_type = str(config.get("model_type"))
    if model_type not in PROVEN_TYPES:
        known = ", ".join(sorted(PROVEN_TYPES))
        return f"its architecture {model_type} is not proven on several ranks; proven: {known}"
    for key in _SPLIT_SIZES:
        size = config.get(key)
        is_whole = key == "num_key_value_heads" and model_type in _LATENT_TYPES
        if isinstance(size, int) and size % num_ranks and not is_whole:
            return f"its {key} {size} cannot be divided by {num_ranks} ranks"
    return None
