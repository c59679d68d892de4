"""How an embedding model pools and transforms hidden states, from its files.

Where a conversion lost the files of sentence-transformers, a causal model gets the most common way: the last
token's state, normalized. Encoders differ, so they are accepted only by their name. Unsupported ways
are rejected, because wrong embeddings would go unnoticed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlxctl.ir import DenseLayer, EmbeddingRecipe, EncoderKind, Pooling
from mlxctl.library.embedding_modules import Pooled, read_modules
from mlxctl.library.encoders import find_encoder, max_positions
from mlxctl.library.files import embedding_error, read_json_object
from mlxctl.library.names import display_name
from mlxctl.library.runtimes import find_runtimes
from mlxctl.library.text_config import whole_number

_RUNTIME = "mlx-lm"
# Words in the names of common encoders, in order of precedence.
_POOLING_BY_NAME: Mapping[str, Pooling] = {
    "arctic": "cls", "bge": "cls", "embeddinggemma": "mean", "gte-modernbert": "cls", "mxbai": "cls",
    "labse": "cls", "e5": "mean", "gte": "mean", "minilm": "mean", "nomic": "mean",
}  # fmt: skip
# The `pooling` of config.json.
_LLAMA_POOLING: Mapping[str, Pooling] = {"avg": "mean", "cls": "cls", "last": "last_token"}


def read_embedding_recipe(path: Path, config: Mapping[str, Any], *, context_length: int) -> EmbeddingRecipe:
    """Read how the model in `path` computes embeddings.

    Raises BrokenModel for unsupported ways and broken files.
    """
    encoder = find_encoder(path, config)
    if encoder is None:
        _check_model_type(path, config)
    modules = read_modules(path, width=whole_number(config, "hidden_size"))
    texts = read_json_object(path, "sentence_bert_config.json") or {}
    prompts, prompt = _read_prompts(path)
    if encoder == "gemma3_text" and modules.pooled is None and not modules.dense:
        raise embedding_error(path, "lacks Dense modules, of which EmbeddingGemma needs two")
    pooled = modules.pooled or Pooled(ways=(_guess_pooling(path, encoder, config),), counts_prompt=True)
    if prompt and not pooled.counts_prompt:
        raise embedding_error(path, "does not pool its prompt (include_prompt), which is not supported")
    _check_widths(path, modules.dense, whole_number(config, "hidden_size"), num_pooled=len(pooled.ways))
    limits = (whole_number(texts, "max_seq_length"), max_positions(encoder, config) if encoder else None)
    return EmbeddingRecipe(
        pooling=pooled.ways,
        is_normalized=modules.is_normalized,
        max_length=min((context_length, *filter(None, limits))),
        encoder=encoder,
        dense=modules.dense,
        prompt=prompt,
        prompts=prompts if pooled.counts_prompt else {},
        is_uncased=texts.get("do_lower_case") is True,
    )


def _check_model_type(path: Path, config: Mapping[str, Any]) -> None:
    model_type = str(config.get("model_type"))
    runtimes = find_runtimes(model_type)
    if runtimes is not None and _RUNTIME not in runtimes:
        raise embedding_error(
            path,
            f"is of model_type {model_type!r}, and only encoders like BERT and the text models that "
            f"{_RUNTIME} has code for can embed here",
        )


def _check_widths(path: Path, dense: Sequence[DenseLayer], width: int | None, *, num_pooled: int) -> None:
    """Raise BrokenModel if widths do not match.

    `width` is that of the states.
    """
    before = width * num_pooled if width else None
    for layer in dense:
        if before is not None and layer.num_inputs != before:
            raise embedding_error(
                path, f"has a Dense module for {layer.num_inputs} numbers, but {before} come before it"
            )
        before = layer.num_outputs


def _guess_pooling(path: Path, encoder: EncoderKind | None, config: Mapping[str, Any]) -> Pooling:
    if encoder is None:
        return "last_token"
    if encoder == "llama_bidirec" and (pooling := _LLAMA_POOLING.get(str(config.get("pooling")))):
        return pooling
    name = display_name(path).lower()
    for word, pooling in _POOLING_BY_NAME.items():
        if word in name:
            return pooling
    raise embedding_error(
        path,
        "does not say which states make its vectors, and encoders differ there; put 1_Pooling/config.json "
        "of the model that it was "
        "made from into its directory",
    )


def _read_prompts(path: Path) -> tuple[dict[str, str], str]:
    """Return the prompts by name, and the default prompt."""
    config = read_json_object(path, "config_sentence_transformers.json") or {}
    listed = config.get("prompts")
    prompts = (
        {name: prompt for name, prompt in listed.items() if isinstance(prompt, str)}
        if isinstance(listed, dict)
        else {}
    )
    return prompts, prompts.get(str(config.get("default_prompt_name")), "")
