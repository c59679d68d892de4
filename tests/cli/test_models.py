"""`mlxctl models`: output, changes and errors."""

import json
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table

from mlxctl.cli import app
from mlxctl.cli.console import print_names
from mlxctl.cli.models import COMMANDS
from mlxctl.library import DEMO_MODEL, this_machine
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state import locations
from mlxctl.state.stores import MeasuredSpeed, SpeedStore
from tests import tiny_models
from tests.library.weight_files import packed, write_model

CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "quantization": {"bits": 4, "group_size": 64},
}
runner = CliRunner()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with a good model, a broken one and an alias."""
    config = {**CONFIG, "max_position_embeddings": 4096}
    write_model(
        tmp_path / "models" / "org" / "good", config, packed("model.layers.0.mlp.up_proj", 1024, 1024)
    )
    (write_model(tmp_path / "models" / "bad", config, {}) / "config.json").write_text("{")
    file = tmp_path / "mlxctl.toml"
    file.write_text(
        f"[library]\nmodels_dirs = [{str(tmp_path / 'models')!r}]\n[library.aliases]\nquick = 'org/good'\n"
    )
    monkeypatch.setenv("MLXCTL_CONFIG", str(file))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def run(*arguments: str, answer: str | None = None) -> Any:
    return runner.invoke(app, ["models", *arguments], input=answer)


def test_ls_shows_usable_models_and_problems_of_others(home: Path) -> None:
    result = run("ls")
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if line.startswith("org/good"))
    assert row.split() == [
        "org/good",
        "text",
        "qwen",
        "4-bit",
        "1.0",
        "M",
        "0.59",
        "MB",
        "4,096",
        "yes",
        "no",
    ]
    assert "quick stands for org/good" in result.stdout
    assert "config.json of model 'bad' is not valid JSON" in result.stdout


def test_ls_json_has_all_fields(home: Path) -> None:
    good, bad = sorted(json.loads(run("ls", "--json").stdout), key=lambda model: model["problem"] or "")
    assert (good["name"], good["bits"], good["num_parameters"], good["fits"]) == (
        "org/good",
        4,
        1024 * 1024,
        True,
    )
    assert (bad["name"], bad["fits"]) == ("bad", None)


def test_ls_of_an_empty_library_suggests_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert "mlxctl models pull" in run("ls").stdout


@pytest.mark.parametrize("name", ["org/good", "good", "quick"])
def test_info_accepts_every_name_of_a_model(home: Path, name: str) -> None:
    result = run("info", name)
    assert result.exit_code == 0
    assert "architecture 'Qwen3ForCausalLM'" in result.stdout
    assert json.loads(run("info", name, "--json").stdout)["kv_bytes_per_token"] == 2 * 2 * 16 * 2 * 2


def test_info_lists_the_drafters_of_a_model(home: Path) -> None:
    vocabulary = {"model": {"vocab": {"a": 0}}}
    for name, rows in (("large", 2048), ("small", 1024)):
        write_model(
            home / "models" / name,
            CONFIG,
            packed("model.layers.0.mlp.up_proj", rows, 1024),
            tokenizer=vocabulary,
        )
    assert "drafters prompt lookup, small" in " ".join(run("info", "large").stdout.split())
    assert json.loads(run("info", "large", "--json").stdout)["drafters"] == {
        "has_mtp_head": False,
        "draft_models": ["small"],
        "mtp_heads": [],
    }


def test_info_repeats_the_given_name_in_commands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(home / "my models" / "one", CONFIG, packed("model.layers.0.mlp.up_proj", 1024, 1024))
    monkeypatch.chdir(home)
    assert "to test its capabilities: mlxctl probe './my models/one'" in run("info", "./my models/one").stdout


def test_info_shows_how_a_model_is_served() -> None:
    model = str(tiny_models.model("qwen3"))
    report = " ".join(run("info", model).stdout.split())
    assert "served as family qwen; tools hermes_json, offered by the template; thinking think_tag" in report
    adapter = json.loads(run("info", model, "--json").stdout)["adapter"]
    assert (adapter["tool_parser_id"], adapter["takes_later_system"], adapter["keeps_thinking"]) == (
        "hermes_json",
        True,
        False,
    )


def test_info_shows_image_input_or_why_it_is_unsupported(tmp_path: Path) -> None:
    assert "; takes images" in " ".join(
        run("info", str(tiny_models.trained("qwen2_5_vl_colors"))).stdout.split()
    )
    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "llama"))
    config = json.loads((model / "config.json").read_text()) | {"model_type": "mllama"}
    (model / "config.json").write_text(json.dumps(config))
    assert "; reads text only: images of mllama models are not supported" in " ".join(
        run("info", str(model)).stdout.split()
    )


def test_info_of_an_encoder_shows_its_embeddings() -> None:
    report = " ".join(
        runner.invoke(app, ["models", "info", str(tiny_models.encoder("embeddinggemma"))]).stdout.split()
    )
    assert "vectors 48 numbers, pooled by mean, normalized, prompts document, query" in report
    assert "cache none: texts are processed in one pass" in report


def test_info_of_a_recurrent_model_shows_its_state() -> None:
    report = " ".join(run("info", str(tiny_models.model("mamba"))).stdout.split())
    assert "cache a state of 38.91 kB" in report


def test_unusable_or_unknown_model_is_a_one_line_error(home: Path) -> None:
    for name, complaint in (("bad", "not valid JSON"), ("org/godo", "did you mean org/good?")):
        result = run("info", name)
        assert result.exit_code == 1
        assert complaint in result.stderr
        assert result.stderr.count("\n") == 1


def test_fit_calls_its_speed_a_prediction(home: Path) -> None:
    result = run("fit", "org/good", "quick", "--context", "1000")
    assert result.exit_code == 0
    assert "predicted tokens/s (at most) = memory bandwidth" in result.stdout
    fits = json.loads(run("fit", "good", "--macs", "--json").stdout)
    ultra = next(fit for fit in fits if fit["machine"]["chip"] == "Apple M3 Ultra")
    assert (ultra["fits"], ultra["usable_is_exact"]) == (True, False)
    assert ultra["predicted_tokens_per_second_at_most"] > 0


@pytest.mark.usefixtures("home")
def test_measured_speed_replaces_the_prediction() -> None:
    stored = MeasuredSpeed(
        fingerprint=fingerprint(DEMO_MODEL.path),
        machine=this_machine().label,
        model="mlxctl-demo",
        decode_tokens_per_second=123.4,
        prompt_tokens_per_second=None,
        context_tokens=0,
        measured_at=0.0,
        version="1",
    )
    SpeedStore(locations.speeds_file()).save(stored)
    (fit,) = json.loads(run("fit", "mlxctl-demo", "--json").stdout)
    assert fit["measured_decode_tps"] == 123.4
    assert "123.4 measured" in run("fit", "mlxctl-demo").stdout
    assert "123.4 tokens/s" in run("info", "mlxctl-demo").stdout


def test_demo_model_is_not_removed() -> None:
    refused = run("rm", "mlxctl-demo")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "built into mlxctl" in refused.stderr


def test_fit_uses_the_kv_cache_format(home: Path) -> None:
    def cache_bytes(*options: str) -> int:
        (fit,) = json.loads(run("fit", "good", "--context", "1024", "--json", *options).stdout)
        return int(fit["cache_bytes"])

    exact = cache_bytes()
    assert cache_bytes("--kv-bits", "8", "--kv-group-size", "32") == exact * 9 // 16
    assert cache_bytes("--kv-bits", "4", "--kv-group-size", "32") == exact * 5 // 16
    assert "expected one of full, 8, 4, config, got '3'" in run("fit", "good", "--kv-bits", "3").stderr


def test_fit_without_weights_is_an_error(home: Path) -> None:
    result = run("fit", "bad")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_rm_asks_for_confirmation(home: Path) -> None:
    assert run("rm", "org/good", answer="n\n").exit_code == 1
    assert (home / "models" / "org" / "good").is_dir()
    assert run("rm", "org/good", answer="y\n").exit_code == 0
    assert not (home / "models" / "org" / "good").exists()


def test_rm_yes_removes_broken_models_without_asking(home: Path) -> None:
    assert json.loads(run("rm", "bad", "--yes", "--json").stdout)["removed"] == "bad"
    assert not (home / "models" / "bad").exists()
    assert run("rm", "bad", "--yes").exit_code == 1


def test_rm_of_an_alias_is_an_error(home: Path) -> None:
    result = run("rm", "quick", "--yes")
    assert result.exit_code == 1
    assert (home / "models" / "org" / "good").is_dir()


def test_alias_is_created_used_and_removed(home: Path) -> None:
    assert run("alias", "best", "good").exit_code == 0
    assert json.loads(run("info", "best", "--json").stdout)["name"] == "best"
    assert run("alias", "best", "--remove").exit_code == 0
    assert run("info", "best").exit_code == 1


def test_alias_to_unknown_model_is_an_error(home: Path) -> None:
    result = run("alias", "best", "org/none")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "org/none" not in (home / "mlxctl.toml").read_text()
    assert run("alias", "best").exit_code == 2
    assert run("alias", "best", "good", "--remove").exit_code == 2


def test_markup_and_control_characters_in_names_are_inert(home: Path) -> None:
    write_model(home / "models" / "[red]x\x1b[2J", CONFIG, {"a": ("BF16", (2, 2))})
    output = run("ls").stdout
    assert "[red]x" in output
    assert "\x1b" not in output


def test_models_help_has_the_summary_of_each_command() -> None:
    page = run("--help").output
    for name, command in COMMANDS.items():
        own = run(name, "--help").output
        assert f"  {name}" in page
        assert command.summary in own
        assert f"Example: mlxctl models {name}" in own


def modules_after(*arguments: str) -> set[str]:
    """Return the modules that a run imports."""
    lines = (
        "import sys",
        "from mlxctl.cli import app",
        f"try: app({['models', *arguments]!r})",
        "except SystemExit: print(*sys.modules, file=sys.stderr)",
    )
    program = "\n".join(lines)
    return set(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stderr.split()
    )


@pytest.mark.parametrize("arguments", [[], ["ls"], ["pull"], ["fit"]])
def test_models_help_imports_no_heavy_package(arguments: list[str]) -> None:
    assert {"rich", "huggingface_hub", "httpx2", "falcon", "mlx", "transformers"}.isdisjoint(
        modules_after(*arguments, "--help")
    )


def test_models_ls_imports_no_model_code(home: Path) -> None:
    code = {"mlx", "mlx.core", "mlx_lm", "mlx_vlm", "mlx_audio", "transformers", "huggingface_hub", "torch"}
    assert code.isdisjoint(modules_after("ls"))


def test_names_are_whole_in_a_narrow_terminal() -> None:
    table = Table("model", "for", "size", box=None, pad_edge=False)
    name, purpose = "mlx-community/Llama-3.2-3B-Instruct-4bit", "small chat, long context, tools, thinking"
    table.add_row(name, purpose, "1.80 GB")
    out = Console(width=50, file=StringIO())
    print_names(out, table)
    assert isinstance(out.file, StringIO)
    lines = [line.rstrip() for line in out.file.getvalue().splitlines()]
    assert lines == [
        "  for                                      size",
        name,
        "  small chat, long context, tools,         1.80 GB",
        "  thinking",
    ]
