"""Modules of sentence-transformers after the layers, from `modules.json`.

The pooling module's directory names the hidden states that are pooled; each Dense module's has the transform
of the pooled vector. Format: the files that sentence-transformers saves. A conversion may lack them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.ir import Activation, DenseLayer, Pooling
from mlxctl.library.files import embedding_error, read_json_array, read_json_object
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.text_config import whole_number

_POOLING_FOLDER = "1_Pooling"
# Names in the file, in the order in which several pooled vectors are concatenated.
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
# Classes of torch.nn, and the default.
_ACTIVATIONS: Mapping[str, Activation] = {
    "Identity": "identity", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "Sigmoid": "sigmoid",
    "SiLU": "silu"
}  # fmt: skip
_USUAL_ACTIVATION = "torch.nn.modules.activation.Tanh"
_ORDER = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Which hidden states are pooled; `counts_prompt`: those of the prompt too."""

    ways: tuple[Pooling, ...]
    counts_prompt: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """Pooling, dense layers and normalization; None where files lack it."""

    pooled: Pooled | None
    dense: tuple[DenseLayer, ...]
    is_normalized: bool


def read_modules(path: Path, *, width: int | None) -> Modules:
    """Read the modules in `path`; `width` is that of the hidden states.

    Raises BrokenModel for broken files and for unsupported modules.
    """
    listed = read_json_array(path, "modules.json")
    if listed is None:
        return Modules(
            pooled=_read_pooling(path, _POOLING_FOLDER),
            dense=_dense_among_weights(path, width),
            is_normalized=True,
        )
    if not all(isinstance(module, dict) for module in listed):
        raise embedding_error(path, "has a modules.json that is not a list of modules")
    modules = [(str(module.get("type")).rpartition(".")[2], str(module.get("path", ""))) for module in listed]
    kinds = [kind for kind, _ in modules]
    if unknown := set(kinds) - set(_ORDER):
        raise embedding_error(path, f"has a {min(unknown)} module (modules.json), which is not supported")
    if kinds != sorted(kinds, key=_ORDER.index) or any(
        kinds.count(kind) > 1 for kind in _ORDER if kind != "Dense"
    ):
        raise embedding_error(
            path, f"has its modules in another order than {', '.join(_ORDER)} (modules.json)"
        )
    folders = {kind: [_inside(path, folder) for name, folder in modules if name == kind] for kind in _ORDER}
    return Modules(
        pooled=_read_pooling(path, (folders["Pooling"] or [_POOLING_FOLDER])[0]),
        dense=_read_dense(path, folders["Dense"], width),
        is_normalized="Normalize" in kinds,
    )


def _inside(path: Path, folder: str) -> str:
    if ".." in Path(folder).parts or Path(folder).is_absolute():
        raise embedding_error(
            path, f"names {folder!r} for a module (modules.json), which is outside the model directory"
        )
    return folder


def _read_pooling(path: Path, folder: str) -> Pooled | None:
    file = f"{folder}/config.json"
    config = read_json_object(path, file)
    if config is None:
        return None
    word = config.get("pooling_mode")
    words = [word] if isinstance(word, str) else word if isinstance(word, list) else []
    ways = tuple(_WORDS[str(word)] for word in words if str(word) in _WORDS)
    ways = ways if words else tuple(name for switch, name in _SWITCHES.items() if config.get(switch) is True)
    if not ways or len(ways) < len(words):
        raise embedding_error(path, f"has an unknown pooling ({file}); known: {', '.join(_WORDS)}")
    return Pooled(ways=ways, counts_prompt=config.get("include_prompt", True) is not False)


def _read_dense(path: Path, folders: Sequence[str], width: int | None) -> tuple[DenseLayer, ...]:
    configs = [read_json_object(path, f"{folder}/config.json") for folder in folders]
    if folders and None in configs:
        found = _dense_among_weights(path, width)
        if len(found) < len(folders):
            raise embedding_error(path, f"lacks Dense modules that modules.json names: {', '.join(folders)}")
        return found
    return tuple(
        _dense_layer(path, folder, config or {}) for folder, config in zip(folders, configs, strict=True)
    )


def _dense_layer(path: Path, folder: str, config: Mapping[str, Any]) -> DenseLayer:
    file = f"{folder}/model.safetensors"
    num_inputs, num_outputs = whole_number(config, "in_features"), whole_number(config, "out_features")
    name = str(config.get("activation_function", _USUAL_ACTIVATION)).rpartition(".")[2]
    if not num_inputs or not num_outputs:
        raise embedding_error(path, f"has no width for its Dense module ({folder}/config.json)")
    if name not in _ACTIVATIONS:
        raise embedding_error(
            path,
            f"has a Dense module with the unknown activation {name}; known: {', '.join(_ACTIVATIONS)}",
        )
    return DenseLayer(
        file=file if (path / file).is_file() else None,
        num_inputs=num_inputs,
        num_outputs=num_outputs,
        has_bias=config.get("bias", True) is not False,
        activation=_ACTIVATIONS[name],
    )


def _dense_among_weights(path: Path, width: int | None) -> tuple[DenseLayer, ...]:
    """Return EmbeddingGemma's Dense modules as mlx-embeddings stores them.

    They are among the model's weights and have no activation; their shapes identify them.
    `width` is that of the
    pooled vector. Packed weights have as many rows as others.
    """
    shapes = {tensor.name: tensor.shape for tensor in read_tensors(path)}
    layers: list[DenseLayer] = []
    while width and (shape := shapes.get(f"dense.{len(layers)}.weight")):
        has_bias = f"dense.{len(layers)}.bias" in shapes
        layers.append(
            DenseLayer(num_inputs=width, num_outputs=shape[0], has_bias=has_bias, activation="identity")
        )
        width = shape[0]
    return tuple(layers)
