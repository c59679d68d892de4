"""Finds the GGUF file of a model that Ollama has.

Layout: `manifests/HOST/NAMESPACE/NAME/TAG` is JSON with the layers of a model, `blobs/sha256-DIGEST` their
content.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from mlxctl.ir.errors import ConversionFailed
from mlxctl.state.locations import expand_user, home_directory
from mlxctl.state.locations.regular_file import read_regular_file

PREFIX = "ollama:"
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_SHOWN = 5
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MODEL, _ADAPTER, _PROJECTOR = (
    f"application/vnd.ollama.image.{kind}" for kind in ("model", "adapter", "projector")
)


class OllamaModel(NamedTuple):
    """A GGUF file, its digest, and a name for the directory."""

    file: Path
    sha256: str
    short_name: str
    has_projector: bool


def find_ollama_model(name: str) -> OllamaModel:
    """Return the model that Ollama has under a name such as `llama3.2:1b`.

    OLLAMA_MODELS names another directory, as for Ollama. Raises ConversionFailed.
    """
    directory = _models_directory()
    path, _, tag = name.rpartition(":") if ":" in name else (name, "", "")
    parts = [*path.split("/"), tag or _TAG]
    if len(parts) > 4 or not all(map(_PART.fullmatch, parts)):
        # SEC: the parts become a path.
        raise ConversionFailed(name, f"{name!r} is no name of an Ollama model; the form is NAME or NAME:TAG")
    defaults = (_HOST, _NAMESPACE)
    whole = [*defaults[: 4 - len(parts)], *parts]
    manifest = directory / "manifests" / Path(*whole)
    layers = _layers(name, manifest, directory)
    if _ADAPTER in layers:
        raise ConversionFailed(
            name, f"Ollama's model {name!r} has an adapter (LoRA), which cannot be imported"
        )
    if _MODEL not in layers:
        raise ConversionFailed(name, f"Ollama's model {name!r} has no GGUF file")
    if len(layers[_MODEL]) > 1:
        raise ConversionFailed(name, f"Ollama's model {name!r} has several files, which cannot be imported")
    digest = _DIGEST.fullmatch(layers[_MODEL][0])
    if digest is None:
        raise ConversionFailed(name, f"{str(manifest)!r} names no SHA-256 digest of the model")
    file = directory / "blobs" / f"sha256-{digest[1]}"
    if not file.is_file():
        raise ConversionFailed(
            name, f"Ollama's file of {name!r} is missing: {str(file)!r}; ollama pull {name}"
        )
    return OllamaModel(file, digest[1], f"{parts[-2]}-{parts[-1]}", _PROJECTOR in layers)


def _models_directory() -> Path:
    named = os.environ.get("OLLAMA_MODELS")
    return expand_user(named) if named else home_directory() / ".ollama" / "models"


def _layers(name: str, manifest: Path, directory: Path) -> dict[str, list[str]]:
    """Return the digests of a manifest by media type."""
    try:
        data = read_regular_file(manifest, _MAX_MANIFEST_BYTES + 1)
        found: Any = json.loads(data) if len(data) <= _MAX_MANIFEST_BYTES else None
    except FileNotFoundError:
        raise ConversionFailed(
            name, f"Ollama has no model {name!r} in {str(directory)!r}{_others(directory)}"
        ) from None
    except OSError as error:
        raise ConversionFailed(name, f"{str(manifest)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        found = None
    layers = found.get("layers") if isinstance(found, dict) else None
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise ConversionFailed(name, f"{str(manifest)!r} is no manifest of Ollama")
    digests: dict[str, list[str]] = {}
    for layer in layers:
        digests.setdefault(str(layer.get("mediaType")), []).append(str(layer.get("digest")))
    return digests


def _others(directory: Path) -> str:
    """Return the models that Ollama has, for an error."""
    usual = directory / "manifests" / _HOST / _NAMESPACE
    names = sorted(f"{path.parent.name}:{path.name}" for path in usual.glob("*/*"))
    more = f" and {len(names) - _MAX_SHOWN} others" if len(names) > _MAX_SHOWN else ""
    return f"; it has {', '.join(names[:_MAX_SHOWN])}{more}" if names else ""
