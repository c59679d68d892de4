"""An installation without extras: everything else works, and the extra is named."""

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.probe.image_check import one_color_png
from tests import tiny_models
from tests.pdf_files import pdf
from tests.server.process import ServerProcess

from .environment import make_environment

MESSAGES = [{"role": "user", "content": "Hello!"}]
IMAGE = b64encode(one_color_png((220, 30, 30))).decode()
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_time", "parameters": SCHEMA}}

GENERATIONS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": MESSAGES}),
    ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "n": 2}),
    ("/v1/chat/completions", {"messages": MESSAGES, "tools": [TOOL], "tool_choice": "required"}),
    (
        "/v1/chat/completions",
        {
            "messages": MESSAGES,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        },
    ),
    ("/v1/completions", {"prompt": "Hello"}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 16}),
    ("/v1/messages", {"messages": MESSAGES}),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a plain installation."""
    return make_environment(tmp_path_factory.mktemp("plain") / "environment")


@pytest.fixture(scope="module")
def server(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for a text model and one model for each extra."""
    directory = tmp_path_factory.mktemp("models")
    shutil.copytree(tiny_models.encoder("bert"), directory / "bert")
    shutil.copytree(tiny_models.trained("pixtral_colors"), directory / "pixtral_colors")
    shutil.copytree(tiny_models.trained("whisper_words"), directory / "whisper_words")
    running = ServerProcess(
        "--model", str(tiny_models.model("endless")), "--models-dir", str(directory), python=str(python)
    )
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()


def text_model(server: ServerProcess) -> str:
    return str(httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), GENERATIONS)
def test_every_protocol_generates_without_extras(
    server: ServerProcess, path: str, body: dict[str, Any], stream: bool
) -> None:
    asked = {"model": text_model(server), "max_tokens": 16, "stream": stream, **body}
    if "max_output_tokens" in body:
        del asked["max_tokens"]
    answer = httpx.post(f"{server.url}{path}", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    assert "went wrong" not in answer.text
    assert "unexpectedly" not in answer.text


def test_every_get_route_answers_without_extras(server: ServerProcess) -> None:
    described = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    paths = [path for path, operations in described.items() if "get" in operations and "{" not in path]
    statuses = {path: httpx.get(f"{server.url}{path}", timeout=30).status_code for path in paths}
    assert len(paths) >= 12
    assert {path: status for path, status in statuses.items() if status >= 500 or status == 404} == {}


def test_agents_and_token_counts_work_without_extras(server: ServerProcess) -> None:
    model = text_model(server)
    agent = httpx.post(f"{server.url}/v1/agents", json={"model": model, "instructions": "Be kind."}).json()[
        "id"
    ]
    turn = {"messages": MESSAGES, "max_tokens": 8}
    assert httpx.post(f"{server.url}/v1/agents/{agent}/generate", json=turn, timeout=60).status_code == 200
    counted = httpx.post(
        f"{server.url}/v1/messages/count_tokens", json={"model": model, "messages": MESSAGES}
    )
    assert counted.json()["input_tokens"] > 0


def refusal_of_openai(answer: httpx.Response) -> str:
    assert answer.status_code in (400, 500)
    return str(answer.json()["error"]["message"])


def refusal_of_anthropic(answer: httpx.Response) -> str:
    assert answer.json()["type"] == "error"
    return refusal_of_openai(answer)


def test_missing_extra_is_named_in_the_callers_protocol(server: ServerProcess) -> None:
    embedding = httpx.post(f"{server.url}/v1/embeddings", json={"model": "bert", "input": "Hello"})
    assert "pip install 'mlxctl[encoders]'" in refusal_of_openai(embedding)

    form = {"data": {"model": "whisper_words"}, "files": {"file": ("a.wav", b"RIFF....WAVE")}}
    for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
        assert "pip install 'mlxctl[audio]'" in refusal_of_openai(httpx.post(f"{server.url}{path}", **form))

    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
    chat = {"model": "pixtral_colors", "messages": [{"role": "user", "content": [url]}]}
    assert "pip install 'mlxctl[vision]'" in refusal_of_openai(
        httpx.post(f"{server.url}/v1/chat/completions", json=chat, timeout=60)
    )
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
    message = {
        "model": "pixtral_colors",
        "max_tokens": 8,
        "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}],
    }
    refused = httpx.post(f"{server.url}/v1/messages", json=message, timeout=60)
    assert "pip install 'mlxctl[vision]'" in refusal_of_anthropic(refused)
    model = httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    source = {"type": "base64", "media_type": "application/pdf", "data": b64encode(pdf("Hello")).decode()}
    content = [{"type": "document", "source": source}]
    message = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": content}]}
    refused = httpx.post(f"{server.url}/v1/messages", json=message, timeout=60)
    assert "(pip install 'mlxctl[pdf]')" in refusal_of_anthropic(refused)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("models", "ls"),
        ("models", "fit", "MODEL"),
        ("probe", "--show", "MODEL"),
    ],
)
def test_commands_run_without_extras(python: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    words = [str(tiny_models.trained("pixtral_colors")) if word == "MODEL" else word for word in arguments]
    run = run_command(python, tmp_path, *words)
    assert "Traceback" not in run.stderr
    assert run.returncode in (0, 1), run.stderr


def run_command(
    python: Path, home: Path, *arguments: str, says: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)} | {
        f"XDG_{kind}_HOME": str(home) for kind in ("STATE", "CACHE", "CONFIG")
    }
    return subprocess.run(
        [python, "-m", "mlxctl", *arguments],
        input=says,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_chat_in_a_pipe_answers(python: Path, tmp_path: Path) -> None:
    run = run_command(python, tmp_path, "chat", "--plain", says="Hello!")
    assert (run.returncode, bool(run.stdout.strip())) == (0, True), run.stderr


def test_doctor_passes_without_extras(python: Path, tmp_path: Path) -> None:
    run = run_command(python, tmp_path, "doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(run.stdout)}
    assert run.returncode == 0
    assert (findings["packages"]["verdict"], findings["answer"]["verdict"]) == ("ok", "ok")


def test_doctor_reports_an_installation_without_answers(python: Path, tmp_path: Path) -> None:
    (missing,) = python.parent.parent.glob("lib/*/site-packages/jinja2")
    link = missing.readlink()
    missing.unlink()
    try:
        run = run_command(python, tmp_path, "doctor")
    finally:
        missing.symlink_to(link)
    assert run.returncode == 1
    assert "the demo model gave no answer over HTTP" in run.stdout
    assert "No module named 'jinja2'" in run.stdout
    assert run.stdout.endswith("broken: answer\n")
