"""Finding the files of Ollama's models."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import ConversionFailed
from mlxctl.library.conversion.ollama import find_ollama_model

MODEL, PROJECTOR, ADAPTER = (
    f"application/vnd.ollama.image.{kind}" for kind in ("model", "projector", "adapter")
)
DIGEST = hashlib.sha256(b"weights").hexdigest()


@pytest.fixture
def ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ollama's directory of models, with llama3.2:1b and a model of Hugging Face."""
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / f"sha256-{DIGEST}").write_bytes(b"weights")
    write_manifest(tmp_path, "registry.ollama.ai/library/llama3.2/1b", MODEL)
    write_manifest(tmp_path, "hf.co/org/model/Q4_K_M", MODEL, PROJECTOR)
    return tmp_path


def write_manifest(root: Path, path: str, *kinds: str, digest: str = f"sha256:{DIGEST}") -> None:
    file = root / "manifests" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"layers": [{"mediaType": kind, "digest": digest} for kind in kinds]}))


@pytest.mark.parametrize(
    ("name", "short_name", "has_projector"),
    [("llama3.2:1b", "llama3.2-1b", False), ("hf.co/org/model:Q4_K_M", "model-Q4_K_M", True)],
)
def test_model_is_found_by_its_name(ollama: Path, name: str, short_name: str, has_projector: bool) -> None:
    found = find_ollama_model(name)
    assert found.file.read_bytes() == b"weights"
    assert (found.sha256, found.short_name, found.has_projector) == (DIGEST, short_name, has_projector)


def test_default_directory_is_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / ".ollama" / "models"
    write_manifest(root, "registry.ollama.ai/library/tiny/latest", MODEL)
    (root / "blobs").mkdir()
    (root / "blobs" / f"sha256-{DIGEST}").touch()
    assert find_ollama_model("tiny").short_name == "tiny-latest"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("llama3.2:3b", None, "Ollama has no model 'llama3.2:3b' in .*; it has llama3.2:1b"),
        ("../../etc:x", None, "is no name of an Ollama model"),
        ("a/b/c/d/e:x", None, "is no name of an Ollama model"),
        ("bad:x", [1], "is no manifest of Ollama"),
        ("bad:x", {"layers": ["a"]}, "is no manifest of Ollama"),
        ("bad:x", {"layers": []}, "has no GGUF file"),
        ("bad:x", {"layers": [{"mediaType": MODEL, "digest": "../../secret"}]}, "names no SHA-256 digest"),
        (
            "bad:x",
            {"layers": [{"mediaType": MODEL, "digest": "sha256:" + "0" * 64}]},
            "is missing: .*ollama pull bad:x",
        ),
        ("bad:x", {"layers": [{"mediaType": ADAPTER, "digest": "a"}]}, "has an adapter"),
        ("bad:x", {"layers": [{"mediaType": MODEL, "digest": "a"}] * 2}, "has several files"),
    ],
)
def test_wrong_name_or_manifest_gets_one_line(ollama: Path, name: str, content: Any, message: str) -> None:
    if content is not None:
        file = ollama / "manifests" / "registry.ollama.ai" / "library" / "bad" / "x"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
    with pytest.raises(ConversionFailed, match=message) as caught:
        find_ollama_model(name)
    assert "\n" not in str(caught.value)
