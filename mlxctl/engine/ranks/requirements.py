"""Which models ranks compute together, and why others are refused. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from mlxctl.ir import ModelSpec, TextGenerationTask

Split = Literal["tensor", "pipeline"]
"""A part of every layer for each rank, or some of the layers."""

PROVEN_TYPES: Mapping[Split, frozenset[str]] = {
    "tensor": frozenset({"llama", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "deepseek_v3"}),
    "pipeline": frozenset({"qwen2", "qwen3_moe", "deepseek_v3"}),
}
"""Architectures whose tests compare the answers of ranks with those of one process."""

# Sizes of a configuration that each rank gets an equal part of.
_SPLIT_SIZES = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
)
# Those along which matrices are cut at their inputs, which quantization groups.
_GROUPED_SIZES = ("intermediate_size", "moe_intermediate_size")
# Their keys and values are the same for all heads, and every rank holds them whole.
_LATENT_TYPES = frozenset({"deepseek_v3"})
# Largest number of ranks that an error suggests.
_MAX_NAMED = 9


class CannotSplitError(ValueError):
    """Ranks cannot serve a model; the message is for the operator."""


def choose_split(
    spec: ModelSpec, config: Mapping[str, Any], num_ranks: int, parallel: Literal["auto"] | Split
) -> Split:
    """Return how ranks share a model. Raises CannotSplitError."""
    if problem := _option_problem(spec):
        raise CannotSplitError(problem)
    splits: tuple[Split, ...] = ("tensor", "pipeline") if parallel == "auto" else (parallel,)
    problems = {split: _split_problem(config, num_ranks, split) for split in splits}
    for split, problem in problems.items():
        if problem is None:
            return split
    raise CannotSplitError(next(filter(None, problems.values())))


def _option_problem(spec: ModelSpec) -> str | None:
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
    return None


def _split_problem(config: Mapping[str, Any], num_ranks: int, split: Split) -> str | None:
    model_type = str(config.get("model_type"))
    if model_type not in PROVEN_TYPES[split]:
        known = ", ".join(sorted(PROVEN_TYPES[split]))
        return f"its architecture {model_type} is not proven on several ranks ({split}); proven: {known}"
    num_layers = config.get("num_hidden_layers")
    if split == "pipeline":
        is_short = isinstance(num_layers, int) and num_layers < num_ranks
        return f"it has {num_layers} layers for {num_ranks} ranks" if is_short else None
    if (key := _undivided_size(config, num_ranks)) is not None:
        able = [str(number) for number in range(2, _MAX_NAMED + 1) if _undivided_size(config, number) is None]
        hint = f"; possible: {', '.join(able)}" if able else ""
        return f"its {key} {config[key]} cannot be divided by {num_ranks} ranks{hint}"
    return _group_problem(config, num_ranks)


def _undivided_size(config: Mapping[str, Any], num_ranks: int) -> str | None:
    """Return the name of a size that has no equal parts."""
    is_latent = config.get("model_type") in _LATENT_TYPES
    for key in _SPLIT_SIZES:
        size = config.get(key)
        is_whole = key == "num_key_value_heads" and is_latent
        if isinstance(size, int) and size % num_ranks and not is_whole:
            return key
    return None


def _group_problem(config: Mapping[str, Any], num_ranks: int) -> str | None:
    """Return why groups of quantized numbers cannot be divided."""
    quantization = config.get("quantization")
    group_size = quantization.get("group_size") if isinstance(quantization, Mapping) else None
    if not isinstance(group_size, int):
        return None
    for key in _GROUPED_SIZES:
        size = config.get(key)
        if isinstance(size, int) and size % (num_ranks * group_size):
            groups = f"quantization groups of {group_size}"
            return f"its {key} {size} cannot be divided by {num_ranks} ranks in {groups}"
    return None
