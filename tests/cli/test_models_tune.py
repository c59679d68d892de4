"""`mlxctl models tune` names the drafter that makes a model fastest."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mlxctl.bench import tuning
from mlxctl.bench.result import Result
from mlxctl.bench.run import RunOptions
from mlxctl.bench.scenarios import Speculation
from mlxctl.cli import app
from tests.bench.sample_results import sample_result
from tests.library.weight_files import write_model

CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
}
SPEEDUPS = {"lookup": 1.2, "draft": 1.5}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with a model, and a smaller one of its vocabulary."""
    for name, rows in (("large", 512), ("small", 64)):
        tensors = {"model.layers.0.mlp.up_proj.weight": ("BF16", (rows, 64))}
        write_model(tmp_path / name, CONFIG, tensors, tokenizer={"model": {"vocab": {"a": 0}}})
    file = tmp_path / "mlxctl.toml"
    file.write_text(f"[library]\nmodels_dirs = [{str(tmp_path)!r}]\n")
    monkeypatch.setenv("MLXCTL_CONFIG", str(file))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Give each drafter its speedup of SPEEDUPS; collects the options of `serve`."""
    served: list[tuple[str, ...]] = []

    def run(scenario: Speculation, options: RunOptions, _observer: object) -> Result:
        (server,) = options.servers
        served.append(server.serve_arguments)
        speedup = SPEEDUPS[server.serve_arguments[server.serve_arguments.index("--speculation") + 1]]
        figures: dict[str, Any] = {f"{task}_speedup": (speedup,) for task in tuning.TASKS}
        return sample_result(figures | {"accepted_share": (0.5,)}, scenario=scenario)

    monkeypatch.setattr(tuning, "run_bench", run)
    return served


def tune(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["models", "tune", *arguments])


@pytest.mark.usefixtures("library")
def test_tune_names_the_options_of_the_fastest_drafter(measured: list[tuple[str, ...]]) -> None:
    result = tune("large")
    assert result.exit_code == 0, result.output
    assert measured == [
        ("--model", "large", "--speculation", "lookup"),
        ("--model", "large", "--speculation", "draft", "--draft", "small"),
    ]
    assert "Fastest: mlxctl serve large --speculation draft --draft small" in result.stdout
    found = json.loads(tune("large", "--draft-models", "0", "--json").stdout)
    assert (found["fastest"], found["serve_options"]) == ("lookup", ["--speculation", "lookup"])
    assert found["trials"][0]["overall"] == pytest.approx(1.2)


@pytest.mark.usefixtures("library", "measured")
def test_tune_advises_against_speculation_without_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPEEDUPS, "lookup", 1.01)
    monkeypatch.setitem(SPEEDUPS, "draft", 0.7)
    assert "serve this model without --speculation" in tune("large").stdout


@pytest.mark.usefixtures("library")
def test_interrupted_tune_ends_without_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[RunOptions] = []

    def interrupted(scenario: Speculation, options: RunOptions, _observer: object) -> Result:
        served.append(options)
        return sample_result({"code_speedup": (1.5,)}, scenario=scenario, problem="interrupted")

    monkeypatch.setattr(tuning, "run_bench", interrupted)
    result = tune("large")
    assert (result.exit_code, result.stdout, len(served)) == (130, "", 1)
    assert "mlxctl: interrupted" in result.stderr


def test_speedup_without_accepted_drafts_is_noise() -> None:
    speedups = dict.fromkeys(tuning.TASKS, 1.4)
    trial = tuning.DrafterTrial(drafter="lookup", serve_options=(), speedups=speedups, overall=1.4)
    assert tuning.fastest_trial([trial]) is None
    assert tuning.fastest_trial([replace(trial, accepted_share=0.5)]) is not None


@pytest.mark.usefixtures("measured")
def test_tune_of_a_model_without_text_is_an_error(library: Path) -> None:
    config = {"model_type": "bert", "architectures": ["BertModel"]}
    write_model(library / "bert", config, {"embeddings.weight": ("BF16", (8, 8))})
    result = tune("bert")
    assert result.exit_code == 1
    assert "bert" in result.stderr
