"""Every command escapes the text of models, servers and files."""

import json
import re
import shutil
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import gguf
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from mlxctl.bench.result import encode_result
from mlxctl.cli import app
from mlxctl.state import locations
from mlxctl.state.stores.audit_files import AuditRecord
from tests import tiny_models
from tests.bench.sample_results import FAST, SLOW, sample_result
from tests.hostile_server import ENDLESS, TEXT, UNEXPECTED, HostileServer, hostile
from tests.library.weight_files import packed, write_model

runner = CliRunner()
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
QUICK = "--rounds 1 --warmups 0 --out RESULTS --url URL"

# What each command is called with. URL is the hostile server, MODEL each hostile model directory, UNUSABLE
# one that is refused before an engine starts.
CALLS: dict[str, list[str]] = {
    "serve": ["UNUSABLE --port 0"],
    "rank": ["1 MODEL --hosts HOSTS"],
    "chat": ["hello --url URL", "hello --url URL --tools", "--list"],
    "run": ["UNUSABLE hello --local"],
    "speak": ["--list-voices --url URL", "hello -o SOUND --url URL", "hello -m UNUSABLE --local -o SOUND"],
    "transcribe": ["TALK -m a --url URL", "TALK -m a --format json --url URL", "TALK -m UNUSABLE --local"],
    "launch": ["codex --url URL --dry-run", "codex --url URL --dry-run --model other"],
    "service logs": [""],
    "logs": ["", "-n 1"],
    "top": ["--once --url URL", "--json --url URL"],
    "cancel": ["12 --url URL", "12 --url URL --json"],
    "models ls": ["", "--json"],
    "models info": ["MODEL", "MODEL --json"],
    "models fit": ["MODEL", "MODEL --json"],
    "models tune": ["UNUSABLE"],
    "models rm": ["MODEL"],
    "models convert": ["UNUSABLE"],
    "models import": ["GGUF"],
    "models alias": ["name MODEL --config SETTINGS"],
    "models search": ["hostile", "hostile --json"],
    "models ps": ["--url URL", "--url URL --json"],
    **{f"models {action}": ["a --url URL", "a --url URL --json"] for action in ("load", "unload", "pin")},
    "models unpin": ["a --url URL"],
    "probe": ["MODEL --show", "UNUSABLE", "--all --show --json"],
    "cache ls": ["--url URL", "--url URL --json"],
    "cache tree": ["--url URL", "--url URL --json"],
    "cache show": ["aa --url URL", "aa --url URL --json"],
    "cache diff": ["aa bb --url URL", "aa bb --url URL --json"],
    "cache stats": ["--url URL", "--url URL --json"],
    "cache explain": ["--url URL", "--url URL --json", "REQUEST --url URL"],
    "cache warm": ["REQUEST --url URL", "REQUEST --url URL --json"],
    "cache pin": ["aa --url URL"],
    "cache unpin": ["aa --url URL"],
    "cache gc": ["--url URL", "--url URL --json"],
    "cache clear": ["--url URL", "aa --url URL"],
    "cache settings": ["--url URL", "a=1 --url URL --json"],
    "cache verify": ["--dir EMPTY"],
    "agents ls": ["--url URL", "--url URL --json"],
    "agents show": ["a --url URL", "a --url URL --json"],
    "agents reset": ["a --url URL"],
    "agents rm": ["a --url URL"],
    "adapters ls": ["--url URL", "--url URL --json"],
    "adapters mount": ["a b --url URL", "a b --url URL --json"],
    "adapters unmount": ["a --url URL"],
    "admin keys ls": ["--url URL", "--url URL --json"],
    "admin keys add": ["a --url URL", "a --url URL --json"],
    "admin keys show": ["a --url URL"],
    "admin keys set": ["a --url URL --name b"],
    "admin keys rotate": ["a --url URL"],
    "admin keys revoke": ["a --url URL"],
    "admin limits show": ["--url URL", "--key a --url URL"],
    "admin limits set": ["--url URL --requests 1", "--key a --url URL --requests 1"],
    "admin guardrails show": ["--url URL"],
    "admin guardrails set": ["RULES --url URL"],
    "admin guardrails test": ["text --url URL"],
    "audit tail": ["", "--json"],
    "audit search": [""],
    "scheduler show": ["--url URL", "--url URL --json"],
    "scheduler set": ["a=1 --url URL"],
    "bench throughput": [f"{QUICK} --streams 2 --answer-tokens 4 --prompt-tokens 8"],
    "bench latency": [f"{QUICK} --requests 1", f"{QUICK} --requests 1 --against URL"],
    "bench prefix": [f"{QUICK} --no-restart"],
    "bench agents": [f"{QUICK} --turns 1 --agents-at-once 1"],
    "bench arrivals": [f"{QUICK} --requests 1 --rate 1000"],
    "bench burst": [f"{QUICK} --requests 1 --no-restart"],
    "bench contention": [f"{QUICK} --requests 1 --watch 0.05"],
    "bench mixed": [f"{QUICK} --requests 1 --clients 1"],
    "bench speculation": [f"{QUICK} --streams 1"],
    "bench speech": [f"{QUICK} --requests 1 --at-once 1"],
    "bench transcription": [f"--file TALK {QUICK}"],
    "bench compare": ["RESULT RESULT", "RESULT RESULT --json", "MODEL RESULT"],
    "bench report": ["RESULT --out RESULTS"],
}
WITHOUT_FOREIGN_TEXT = {
    **dict.fromkeys(
        (f"service {action}" for action in ("install", "uninstall", "start", "restart", "stop", "status")),
        "speaks with the service manager of the system",
    ),
    **dict.fromkeys(
        (f"config {action}" for action in ("path", "show", "init")), "prints settings of the user"
    ),
    **dict.fromkeys(
        (f"completion {shell}" for shell in ("bash", "zsh", "fish")), "prints a script of the package"
    ),
    "models recommend": "prints the package's own catalog",
    "models pull": "prints the name that was typed (tests/library/test_downloads.py has the hub's errors)",
    "bench probe": "prints the tables of `bench latency`",
    "cache export": "prints counts",
    "cache import": "prints counts",
    "audit prune": "prints a count",
    "doctor": "prints facts of this machine",
}


def leaves(command: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all commands."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), f"{path} {name}".strip())


COMMANDS = list(leaves(app))
SHOWS_TEXTS = {"agents show", "cache show", "chat", "logs", "service logs"}
ASKS_SERVERS = [path for path in CALLS if any("URL" in call for call in CALLS[path])]


def write_hostile_gguf(path: Path) -> None:
    """Write a GGUF file of an architecture with a hostile name."""
    writer = gguf.GGUFWriter(path, TEXT)
    writer.add_name(TEXT)
    writer.add_tensor(TEXT, np.zeros((1, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hostile_models(directory: Path) -> list[Path]:
    """Write model directories with a hostile text in one place each."""
    config: dict[str, Any] = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 1}
    configs: dict[str, dict[str, Any]] = {
        "type": config | {"model_type": TEXT},
        "rope": config | {"rope_scaling": {"type": TEXT, "rope_type": TEXT}},
        "class": config | {"architectures": [TEXT], "torch_dtype": TEXT, "_name_or_path": TEXT},
        "quantized": config | {"quantization": {"mode": TEXT, "bits": TEXT, "group_size": 64}},
        "layers": config | {"layer_types": [TEXT], "head_dim": TEXT},
        "code": config | {"auto_map": {TEXT: TEXT}, "model_file": TEXT},
        TEXT.replace("/", "-"): config,
    }
    found = [
        write_model(
            directory / name,
            content,
            packed(TEXT, 64, 64),
            tokenizer_config={"tokenizer_class": TEXT, "chat_template": TEXT, "eos_token": TEXT},
            generation_config={"temperature": TEXT, TEXT: TEXT},
        )
        for name, content in configs.items()
    ]
    for path in found:
        (path / "README.md").write_text(f"---\nlibrary_name: {json.dumps(TEXT)}\n---\n{TEXT}")
        (path / "chat_template.jinja").write_text(f"{{{{ raise_exception({json.dumps(TEXT)}) }}}}")
    (directory / "broken" / "x").mkdir(parents=True)
    (directory / "broken" / "config.json").write_text(TEXT)
    return [*found, directory / "broken", directory / TEXT.replace("/", ":")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """A home with hostile models, logs and results: values of CALLS."""
    home = tmp_path_factory.mktemp("home")
    (home / "settings.toml").write_text(f"[library]\nmodels_dirs = [{str(home / 'models')!r}]\n")
    (home / "request.json").write_text('{"messages": []}')
    (home / "rules.json").write_text("{}")
    (home / "hosts.json").write_text(json.dumps([[TEXT], [TEXT]]))
    (home / "empty").mkdir()
    write_hostile_gguf(home / "model.gguf")
    with wave.open(str(home / "talk.wav"), "wb") as talk:
        talk.setparams((1, 2, 16_000, 0, "NONE", ""))
        talk.writeframes(bytes(32_000))
    models = hostile_models(home / "models")
    result = encode_result(sample_result(FAST, SLOW, problem="evil")).replace(
        '"org/model-4bit"', json.dumps(TEXT)
    )
    (home / "result.json").write_text(result.replace('"evil"', json.dumps(TEXT)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        patch.setenv("MLXCTL_CONFIG", str(home / "settings.toml"))
        patch.setenv("HF_HUB_CACHE", str(home / "hub"))
        locations.audit_directory().mkdir(parents=True)
        locations.service_log_file().write_bytes(f"{TEXT}\n".encode() + b"\xff\x1b[31m\n")
        record = AuditRecord(time=1.0, request_id=TEXT, method=TEXT, route=TEXT, status=200, duration_ms=1.0)
        (locations.audit_directory() / "audit-1970-01-01.0001.jsonl").write_bytes(
            msgspec.json.encode(msgspec.structs.replace(record, model=TEXT, caller=TEXT, error=TEXT)) + b"\n"
        )
        yield {
            "MODEL": list(map(str, models)),
            "UNUSABLE": [str(models[0])],
            "GGUF": [str(home / "model.gguf")],
            "SETTINGS": [str(home / "settings.toml")],
            "REQUEST": [str(home / "request.json")],
            "HOSTS": [str(home / "hosts.json")],
            "RULES": [str(home / "rules.json")],
            "EMPTY": [str(home / "empty")],
            "RESULT": [str(home / "result.json")],
            "TALK": [str(home / "talk.wav")],
            "SOUND": [str(home / "sound.wav")],
            "RESULTS": [str(home / "results")],
        }


def run(path: str, call: str, words: dict[str, str]) -> str:
    """Run a command in this process; return what it printed.

    Without answers to prompts: in a pipe they are as the model wrote them.
    """
    arguments = [words.get(word, word) for word in (*path.split(), *call.split())]
    done = runner.invoke(app, arguments, input="", prog_name="mlxctl")
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exc_info)
    return done.stderr if path in ("chat", "run") else f"{done.stdout}{done.stderr}"


def check(shown: str, *, shows_texts: bool = False) -> None:
    """Assert that a terminal shows this text as it is.

    A name begins no line; texts may have several.
    """
    found = RAW.search(shown)
    assert found is None, shown[max(found.start() - 200, 0) : found.end()].encode("unicode_escape")
    assert "Traceback" not in shown
    assert re.search("^mlxctl: forged", shown, re.MULTILINE) is None or shows_texts


def test_every_command_has_an_entry() -> None:
    known = {*CALLS, *WITHOUT_FOREIGN_TEXT}
    assert set(COMMANDS) - known == set(), "add calls to CALLS, or the reason to WITHOUT_FOREIGN_TEXT"
    assert known - set(COMMANDS) == set(), "these commands are gone"


def call_with(server: HostileServer, path: str, place: dict[str, list[str]]) -> None:
    """Check the output of a command about this server."""
    words = {word: values[0] for word, values in place.items()} | {"URL": server.url}
    for call in CALLS[path]:
        if "URL" in call:
            check(run(path, call, words), shows_texts=path in SHOWS_TEXTS)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chats that do not wait for a busy server."""
    monkeypatch.setattr("mlxctl.chat.chat_turn.MAX_BUSY_SECONDS", 0.0)
    monkeypatch.setattr("mlxctl.chat.plain_chat.MAX_BUSY_SECONDS", 0.0)


@pytest.mark.parametrize("path", ASKS_SERVERS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(200, None, id="right fields"),
        pytest.param(400, None, id="error"),
        pytest.param(200, json.dumps({TEXT: TEXT, "data": [{"id": TEXT}]}).encode(), id="other fields"),
    ],
)
def test_texts_of_a_server_are_escaped(
    path: str, status: int, body: bytes | None, place: dict[str, list[str]]
) -> None:
    with hostile(status, body) as server:
        call_with(server, path, place)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", UNEXPECTED)
def test_an_unexpected_answer_is_an_error_in_one_line(kind: str, place: dict[str, list[str]]) -> None:
    with hostile(200, UNEXPECTED[kind]) as server:
        words = {word: values[0] for word, values in place.items()} | {"URL": server.url}
        for path in (
            "agents ls",
            "models ps",
            "cache ls",
            "cache stats",
            "adapters ls",
            "top",
            "chat",
        ):
            arguments = [words.get(word, word) for word in (*path.split(), *CALLS[path][0].split())]
            done = runner.invoke(app, arguments)
            assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1), (path, done.output)
            assert done.stderr.startswith("mlxctl: ")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["agents", "ls"], "Object missing required field `has_more`"),
        (["models", "ps"], "Object missing required field `pool`"),
        (["cache", "clear"], "Object missing required field `num_changed`"),
        (["admin", "keys", "ls"], "Object missing required field `keys`"),
    ],
)
def test_the_first_wrong_field_is_named(arguments: list[str], field: str) -> None:
    with hostile(200, b'{"data": []}') as server:
        done = runner.invoke(app, [*arguments, "--url", server.url])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"mlxctl: the answer of {server.url}/")
    assert f"is not in the expected format: {field}" in done.stderr


def test_a_list_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.cli.server_client.MAX_PAGES", 3)
    with hostile(200, b'{"data": [], "has_more": true, "last_id": "a"}') as server:
        done = runner.invoke(app, ["agents", "ls", "--url", server.url])
    assert done.stderr == f"mlxctl: {server.url}/v1/agents lists more than 3 pages\n"


@pytest.mark.parametrize("command", ["agents ls", "top --once", "launch codex --dry-run"])
def test_an_answer_without_end_is_an_error(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.inference.remote.server_answers.MAX_ANSWER_BYTES", 100_000)
    with hostile(200, ENDLESS) as server:
        done = runner.invoke(app, [*command.split(), "--url", server.url])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "has more than 0.10 MB" in done.stderr or "lists no models" in done.stderr


def test_a_server_that_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.cli.server_connection._READ_SECONDS", 0.1)
    monkeypatch.setattr("mlxctl.inference.remote.client._LIST_SECONDS", 0.1)
    with hostile(hold=True) as server:
        for command in ("agents ls", "top --once"):
            done = runner.invoke(app, [*command.split(), "--url", server.url])
            assert done.exit_code == 1
            assert done.stderr == (
                f"mlxctl: the server at {server.url} did not answer within 0.1 s; it may be busy\n"
            )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("path", ["agents ls", "top", "chat", "launch", "bench latency", "models load"])
@pytest.mark.parametrize("status", [204, 302, 401, 403, 404, 429, 500, 503])
def test_texts_of_an_error_are_escaped(path: str, status: int, place: dict[str, list[str]]) -> None:
    with hostile(status) as server:
        call_with(server, path, place)


@pytest.mark.parametrize("path", [path for path in CALLS if path not in ASKS_SERVERS and path != "serve"])
def test_texts_of_models_and_files_are_escaped(
    path: str, place: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with hostile() as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        for call in CALLS[path]:
            for model in place["MODEL"] if "MODEL" in call else [""]:
                words = {word: values[0] for word, values in place.items()} | {"MODEL": model}
                # The name of a directory was typed, with its line end.
                check(run(path, call, words), shows_texts=True)


def test_server_that_cannot_start_escapes_its_error(tmp_path: Path) -> None:
    model = shutil.copytree(tiny_models.model("qwen3"), tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": TEXT}))
    done = runner.invoke(app, ["serve", str(model), "--port", "0"])
    assert done.exit_code == 1
    assert "evil" in done.stderr
    check(done.stdout + done.stderr)
