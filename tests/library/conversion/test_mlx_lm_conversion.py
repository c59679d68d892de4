"""Converting with mlx-lm: results, refusals, and what an end leaves."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from click.testing import CliRunner
from mlx_lm.utils import load_model

from mlxctl.cli import app
from mlxctl.ir.errors import ConversionFailed, ModelError
from mlxctl.library.conversion.mlx_lm_conversion import Conversion, convert_model
from tests import tiny_models


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the new model."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "mlxctl" / "models" / "new"


def convert(source: Path, target: Path, **options: Any) -> Path:
    convert_model(source, target, Conversion(**options), origin="org/source", progress=lambda *_: None)
    return target


def copy_of(model: Path, directory: Path, **config: Any) -> Path:
    """Copy a model with changed fields of its configuration."""
    directory.mkdir()
    for file in model.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    old = json.loads((model / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**old, **config}))
    return directory


def test_command_makes_what_mlx_lm_makes_and_runs_no_code(target: Path, tmp_path: Path) -> None:
    code = {"AutoModelForCausalLM": "code.Model"}
    source = copy_of(tiny_models.model("llama3"), tmp_path / "source", auto_map=code)
    (source / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    options = ("--recipe", "mixed_4_6", "--group-size", "32", "--dtype", "bfloat16")
    result = CliRunner().invoke(app, ["models", "convert", str(source), *options, "--json"])
    assert result.exit_code == 0, result.output
    new = Path(json.loads(result.stdout)["path"])
    assert new == target.with_name("source-mixed_4_6")
    network, config = load_model(new)
    forms = {layer["bits"] for layer in config["quantization"].values() if isinstance(layer, dict)}
    assert forms == {4, 6}
    assert network.model.norm.weight.dtype == mx.bfloat16
    card = (new / "README.md").read_text()
    assert "recipe mixed_4_6, groups of 32, other weights bfloat16" in card
    assert not list(new.glob("*.py"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, "is quantized already (4-bit)"),
        ({"model_type": "unheard_of"}, "does not support the model_type 'unheard_of'"),
        ({"model_file": "code.py"}, "is built by Python code of its own"),
    ],
)
def test_source_that_cannot_be_converted_is_refused(
    config: dict[str, Any], message: str, target: Path, tmp_path: Path
) -> None:
    source = copy_of(tiny_models.model("qwen3"), tmp_path / "source", **config)
    with pytest.raises(ModelError) as caught:
        convert(source, target)
    assert message in str(caught.value)
    assert not target.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 7}, "--bits 7 is unknown; allowed are 2, 3, 4, 5, 6, 8"),
        ({"recipe": "mixed_5_6"}, "--recipe mixed_5_6 is unknown"),
        ({"recipe": "mixed_4_6", "bits": 4}, "--recipe chooses bits and mode"),
        ({"mode": "mxfp4", "bits": 4}, "--mode mxfp4 has its own --bits"),
        ({"dtype": "int8"}, "--dtype int8 is unknown"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionFailed, match=message):
        Conversion(**options)


def test_disk_without_room_is_found_before_the_start(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ConversionFailed, match=r"the new model needs .* which has 0.10 MB left"):
        convert(tiny_models.model("qwen3"), target)
    assert not target.parent.exists()


def test_interrupt_leaves_nothing(target: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        convert_model(tiny_models.model("qwen3"), target, Conversion(), origin="a", progress=interrupt)
    assert list(target.parent.iterdir()) == []


def test_failure_of_mlx_lm_is_one_line(target: Path, tmp_path: Path) -> None:
    source = copy_of(tiny_models.model("qwen3"), tmp_path / "source", num_hidden_layers=5)
    with pytest.raises(ConversionFailed, match="mlx-lm cannot convert it: ") as caught:
        convert(source, target)
    assert "\n" not in str(caught.value)
    assert list(target.parent.iterdir()) == []
