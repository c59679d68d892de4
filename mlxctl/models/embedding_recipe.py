"""How an embedding model's vectors are made, from the files that sentence-transformers lays beside the weights.

`modules.json` names the modules one after the other, the pooling module's directory says which states count, and the two small
configurations say what is done to a text. A conversion that lost these files is taken for what most such models are: the state of
the last token, normalised. What is not computed here is refused, because its vectors would be wrong without anybody noticing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.errors import BrokenModel
from mlxctl.ir import EmbeddingRecipe, Pooling
from mlxctl.models.files import read_json_array, read_json_object
from mlxctl.models.names import spoken_name
from mlxctl.models.runtimes import find_runtimes

_RUNTIME = "mlx-lm"
_USUAL_POOLING_DIRECTORY = "1_Pooling"
# The file's names, in the order in which several vectors follow each other.
_SWITCHES: Mapping[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last_token",
}
_WORDS: Mapping[str, Pooling] = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}


def read_embedding_recipe(path: Path, config: Mapping[str, Any], *, context_length: int) -> EmbeddingRecipe:
    """Read how the model in `path` makes vectors. Raises BrokenModel for what is not computed here, and for broken files."""
    _refuse_other_models(path, config)
    modules = _read_modules(path)
    texts = read_json_object(path, "sentence_bert_config.json") or {}
    limit = texts.get("max_seq_length")
    pooling, counts_prompt = _read_pooling(path, modules.get("Pooling", _USUAL_POOLING_DIRECTORY))
    prompt = _default_prompt(path)
    if prompt and not counts_prompt:
        raise _refusal(path, "leaves its prompt out when it pools (include_prompt), which is not done here")
    return EmbeddingRecipe(
        pooling=pooling,
        is_normalized="Normalize" in modules,
        max_length=min(context_length, limit) if isinstance(limit, int) and limit > 0 else context_length,
        prompt=prompt,
        is_uncased=texts.get("do_lower_case") is True,
    )


def _refuse_other_models(path: Path, config: Mapping[str, Any]) -> None:
    model_type = str(config.get("model_type"))
    runtimes = find_runtimes(model_type)
    if runtimes is not None and _RUNTIME not in runtimes:
        raise _refusal(
            path, f"is of model_type {model_type!r}, and only the text models that {_RUNTIME} has code for can embed here"
        )
    for key, value in (("use_bidirectional_attention", True), ("is_causal", False)):
        if config.get(key) is value:
            raise _refusal(path, f"lets a token see those behind it ({key} in config.json), which is not computed here")


def _read_modules(path: Path) -> dict[str, str]:
    """Return the directories of the modules by their kind."""
    listed = read_json_array(path, "modules.json")
    if listed is None:
        return {"Transformer": "", "Normalize": ""}
    if not all(isinstance(module, dict) for module in listed):
        raise _refusal(path, "has a modules.json that is no list of modules")
    modules = {str(module.get("type")).rpartition(".")[2]: str(module.get("path", "")) for module in listed}
    if unknown := modules.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise _refusal(path, f"ends with a {min(unknown)} module (modules.json), which is not computed here")
    return modules


def _read_pooling(path: Path, directory: str) -> tuple[tuple[Pooling, ...], bool]:
    """Return what is pooled, and whether the prompt counts."""
    file = f"{directory}/config.json"
    if ".." in Path(directory).parts or Path(directory).is_absolute():
        raise _refusal(path, f"names {directory!r} for its pooling, which lies outside of it")
    config = read_json_object(path, file)
    if config is None:
        return ("last_token",), True
    word = config.get("pooling_mode")
    words = [word] if isinstance(word, str) else word if isinstance(word, list) else []
    pooling = tuple(_WORDS[str(word)] for word in words if str(word) in _WORDS)
    pooling = pooling if words else tuple(name for switch, name in _SWITCHES.items() if config.get(switch) is True)
    if not pooling or len(pooling) < len(words):
        raise _refusal(path, f"pools in a way that is unknown here ({file}); known: {', '.join(_WORDS)}")
    return pooling, config.get("include_prompt", True) is not False


def _default_prompt(path: Path) -> str:
    config = read_json_object(path, "config_sentence_transformers.json") or {}
    name, prompts = config.get("default_prompt_name"), config.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    return prompt if isinstance(prompt, str) else ""


def _refusal(path: Path, what: str) -> BrokenModel:
    return BrokenModel(path, f"embedding model {spoken_name(path)!r} {what}")
