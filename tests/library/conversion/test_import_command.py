"""`mlxctl models import`: names, output, and errors."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from tests import tiny_models
from tests.library.conversion.gguf_files import write_gguf
from tests.library.conversion.test_ollama import MODEL, write_manifest


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file with characters that a model's name cannot have."""
    path = tmp_path_factory.mktemp("files") / "My model (Q8_0).gguf"
    return write_gguf(tiny_models.model("qwen3"), path, matrices="Q8_0")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty library."""
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def test_imported_model_is_in_the_library(file: Path, home: Path) -> None:
    result = run("import", file)
    assert result.exit_code == 0, result.output
    assert "tensors Q8_0 as 8 bits in groups of 32 with float16 scales: exactly\n" in result.stdout
    assert "Try: mlxctl serve My-model-Q8_0\n" in result.stdout
    listed = json.loads(run("ls", "--json").stdout)
    assert [(model["name"], model["problem"]) for model in listed] == [("My-model-Q8_0", None)]


def test_existing_model_is_replaced_only_with_force(file: Path, home: Path) -> None:
    first = json.loads(run("import", file, "--name", "org/model", "--json").stdout)
    (Path(first["path"]) / "old").touch()
    again = run("import", file, "--name", "org/model")
    assert (again.exit_code, "--force replaces it" in again.stderr) == (1, True)
    assert run("import", file, "--name", "org/model", "--bits", "4", "--force").exit_code == 0
    assert not (Path(first["path"]) / "old").exists()
    assert [path.name for path in Path(first["path"]).parents[1].iterdir()] == ["org"]


def test_model_of_ollama_is_imported_and_its_digest_checked(file: Path, home: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    blob = home / "OLLAMA_MODELS" / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True)
    shutil.copy(file, blob)
    write_manifest(
        home / "OLLAMA_MODELS", "registry.ollama.ai/library/tiny/1b", MODEL, digest=f"sha256:{digest}"
    )
    assert json.loads(run("import", "ollama:tiny:1b", "--json").stdout)["model"] == "tiny-1b"
    with blob.open("r+b") as damaged:
        damaged.seek(-1, 2)
        damaged.write(b"x")
    result = run("import", "ollama:tiny:1b", "--name", "again")
    assert (result.exit_code, "it is damaged: its SHA-256 is" in result.stderr) == (1, True)


def test_model_in_parts_is_imported_by_its_first_part(file: Path, home: Path) -> None:
    model = tiny_models.model("qwen3")
    write_gguf(model, home / "Tiny.gguf", matrices="Q8_0", part_tensors=20)
    first, *others = sorted(home.glob("Tiny-*.gguf"))
    assert others
    new = json.loads(run("import", first, "--json").stdout)
    whole = json.loads(run("import", file, "--json").stdout)
    assert new["model"] == "Tiny"
    assert weights(new["path"]) == weights(whole["path"])


def test_missing_and_exchanged_parts_are_named(home: Path) -> None:
    write_gguf(tiny_models.model("qwen3"), home / "Tiny.gguf", part_tensors=20)
    first, second, *others = sorted(home.glob("Tiny-*.gguf"))
    count = 2 + len(others)
    assert f"it is part 2 of {count}; name the first one, '{first.name}'" in run("import", second).stderr
    shutil.copy(first, second)
    assert f"by its metadata it is part 1 of {count}, and not part 2" in run("import", first).stderr
    second.unlink()
    result = run("import", first)
    assert f"has {count} parts, of which '{second.name}' is missing beside it\n" in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def weights(model: str) -> dict[str, bytes]:
    files = sorted(Path(model).glob("*.safetensors"))
    return {file.name: file.read_bytes() for file in files}


def test_name_of_a_downloaded_model_is_refused(file: Path, home: Path) -> None:
    snapshot = home / "HF_HUB_CACHE" / "models--org--model" / "snapshots" / "0123456789ab"
    shutil.copytree(tiny_models.model("qwen3"), snapshot)
    result = run("import", file, "--name", "org/model")
    assert (result.exit_code, "the library has a model 'org/model'" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llama3.2:1b",), "No such file or directory; give a GGUF file, or ollama:NAME"),
        (("FILE", "--name", "a/b/c"), "'a/b/c' is no name of a model"),
        (("FILE", "--bits", "7"), "must be 2, 3, 4, 5, 6 or 8"),
        (("ollama:none",), "Ollama has no model 'none'"),
    ],
)
def test_wrong_argument_gets_one_line(arguments: tuple[str, ...], message: str, file: Path) -> None:
    result = run("import", *(file if argument == "FILE" else argument for argument in arguments))
    assert result.exit_code in (1, 2)
    assert message in result.stderr
