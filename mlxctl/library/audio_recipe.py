"""The audio input of a language model, or why it is unsupported.

Reads `config.json`, `processor_config.json` and `preprocessor_config.json`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.formats.audio.family import AudioFiles
from mlxctl.formats.audio.registry import audio_family_of
from mlxctl.formats.vision.family import UnclearError
from mlxctl.ir import AudioRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_json_object
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.text_config import whole_config
from mlxctl.library.weights import include_audio_tower
from mlxctl.state.installed import missing_for


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioSupport:
    """An audio recipe, or the reason why there is none.

    Neither for a model without an audio tower.
    """

    recipe: AudioRecipe | None = None
    problem: str | None = None


def read_audio_recipe(path: Path, config: Mapping[str, Any]) -> AudioSupport:
    """Read the audio input of the language model in `path`.

    Raises BrokenModel only for unreadable files.
    """
    model_type = str(config.get("model_type"))
    config = whole_config(config)
    family = audio_family_of(model_type)
    tensors = read_tensors(path)
    has_audio = family is not None or isinstance(config.get("audio_config"), Mapping)
    if not has_audio or not include_audio_tower(tensors):
        return AudioSupport()
    if family is None:
        return AudioSupport(problem=f"audio of {model_type} models is not supported")
    for extra in ("vision", "audio"):
        if missing := missing_for(extra):
            return AudioSupport(problem=f"audio needs {missing}")
    try:
        files = _read_files(path, config, [tensor.name for tensor in tensors])
        return AudioSupport(recipe=family.recipe(files))
    except (UnclearError, BrokenModel) as error:
        return AudioSupport(problem=f"its files do not describe its audio input: {error}")


def _read_files(path: Path, config: Mapping[str, Any], tensor_names: Collection[str]) -> AudioFiles:
    processor = read_json_object(path, "processor_config.json") or {}
    # The newer file takes precedence, but does not always have all values.
    extractor: dict[str, Any] = {}
    for values in (read_json_object(path, "preprocessor_config.json") or {}, processor):
        inner = values.get("feature_extractor", values)
        extractor |= inner if isinstance(inner, Mapping) else {}
    return AudioFiles(config, extractor, processor, tensor_names)
