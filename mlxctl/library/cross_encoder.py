"""Cross-encoders: encoders with a classification head of one label.

A query and a document are one text; the label is the document's relevance. The head is a dense layer and a
projection to one number, on the pooled state.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import Activation, DenseLayer, EmbeddingRecipe, EncoderKind, Pooling
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.encoders import ENCODER_KINDS, find_encoder, max_positions
from mlxctl.library.names import display_name
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.text_config import whole_number

_ARCHITECTURE = "ForSequenceClassification"
# The projection of each kind's head.
_PROJECTIONS: Mapping[EncoderKind, str] = {
    "bert": "classifier.weight",
    "xlm_roberta": "classifier.out_proj.weight",
    "modernbert": "classifier.weight",
}
_POOLING: Mapping[str, Pooling] = {"cls": "cls", "mean": "mean"}
# Of the score, as sentence-transformers names them.
_ACTIVATIONS: Mapping[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid"}
_DEFAULT_EPSILON = 1e-5
_DEFAULT_ACTIVATION = "torch.nn.modules.activation.Sigmoid"


def is_cross_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the configuration is that of an encoder with a classification head."""
    architectures = config.get("architectures")
    return (
        config.get("model_type") in ENCODER_KINDS
        and isinstance(architectures, list)
        and any(str(name).endswith(_ARCHITECTURE) for name in architectures)
    )


def read_cross_encoder_recipe(
    path: Path, config: Mapping[str, Any], *, context_length: int
) -> EmbeddingRecipe:
    """Read how the cross-encoder in `path` computes scores.

    Raises BrokenModel for an unsupported encoder or head.
    """
    encoder, width = find_encoder(path, config), whole_number(config, "hidden_size")
    if encoder is None or encoder not in _PROJECTIONS or not width:
        raise _reranker_error(path, "is supported only with the layers of BERT, RoBERTa or ModernBERT")
    projection = _PROJECTIONS[encoder]
    shape = next((tensor.shape for tensor in read_tensors(path) if tensor.name == projection), None)
    if shape is None or shape[0] != 1:
        found = "none" if shape is None else f"of {shape[0]} labels"
        raise _reranker_error(
            path, f"needs a classification head of one label ({projection}); it has {found}"
        )
    return EmbeddingRecipe(
        pooling=(_pooling(path, config),),
        is_normalized=False,
        max_length=min(filter(None, (context_length, max_positions(encoder, config)))),
        encoder=encoder,
        dense=(
            _hidden_layer(path, config, width) if encoder == "modernbert" else _tanh_layer(width),
            DenseLayer(num_inputs=width, num_outputs=1, has_bias=True, activation=_activation(path, config)),
        ),
        scores_pairs=True,
    )


def _tanh_layer(width: int) -> DenseLayer:
    return DenseLayer(num_inputs=width, num_outputs=width, has_bias=True, activation="tanh")


def _hidden_layer(path: Path, config: Mapping[str, Any], width: int) -> DenseLayer:
    """Return the layer of ModernBERT's head, which normalizes."""
    for field, usual in (("classifier_activation", "gelu"), ("norm_bias", False)):
        if config.get(field, usual) != usual:
            raise _reranker_error(
                path, f"has {field} {config[field]!r} (config.json); only {usual!r} is supported"
            )
    return DenseLayer(
        num_inputs=width,
        num_outputs=width,
        has_bias=config.get("classifier_bias") is True,
        activation="gelu",
        norm_epsilon=float(config.get("norm_eps", _DEFAULT_EPSILON)),
    )


def _pooling(path: Path, config: Mapping[str, Any]) -> Pooling:
    name = str(config.get("classifier_pooling", "cls"))
    if name not in _POOLING:
        raise _reranker_error(
            path, f"has the unknown classifier_pooling {name!r}; known: {', '.join(_POOLING)}"
        )
    return _POOLING[name]


def _activation(path: Path, config: Mapping[str, Any]) -> Activation:
    options = config.get("sentence_transformers")
    named = options.get("activation_fn") if isinstance(options, Mapping) else None
    name = str(named or config.get("sbert_ce_default_activation_function") or _DEFAULT_ACTIVATION)
    activation = _ACTIVATIONS.get(name.rpartition(".")[2])
    if activation is None:
        raise _reranker_error(path, f"has the unknown activation {name}; known: {', '.join(_ACTIVATIONS)}")
    return activation


def _reranker_error(path: Path, what: str) -> BrokenModel:
    return BrokenModel(path, f"reranker {display_name(path)!r} {what}")
