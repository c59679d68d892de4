"""Broken and hostile model directories beside a good one."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

TEMPLATES = {
    "wide": "{{ 'x' | center(10**9) }}",
    "endless": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "doubling": (
        "{% set n = namespace(t=['x']) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ "
        "n.t }}"
    ),
    "raising": "{{ raise_exception('not with me') }}",
    "formatting": "{{ '%1000000000d' % 1 }}",
}


def without_template(model: Path) -> None:
    (model / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": None}))


def with_config(**fields: Any) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, **fields}))

    return change


def with_template(source: str) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        without_template(model)
        (model / "chat_template.jinja").write_text(source)

    return change


def without_file(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).unlink()


def with_tokens_too_many(model: Path) -> None:
    """A tokenizer with more tokens than the weights.

    One of them is in the template.
    """
    with_template("<|more 999|>{{ messages[0].content }}")(model)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    first = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [
        {**first, "id": 10_000 + number, "content": f"<|more {number}|>"} for number in range(1000)
    ]
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


def cut_config(model: Path) -> None:
    (model / "config.json").write_text("{")


def cut_short(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (cut_short, "cannot be loaded"),
    "unheard-of": (with_config(model_type="unheard_of"), "unheard_of"),
    "own-code": (with_config(model_file="evil.py"), "--trust-remote-code"),
    "silent": (without_template, "no chat template"),
    "no-weights": (without_file("model.safetensors"), "weights"),
    "no-config": (without_file("config.json"), "config.json"),
    "no-json": (cut_config, "JSON"),
    "disagreeing": (with_tokens_too_many, "has no weights for tokens beyond 511"),
    **{name: (with_template(source), "the chat template of") for name, source in TEMPLATES.items()},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for a good model, and for a directory of others."""
    directory = tmp_path_factory.mktemp("models")
    for name, (spoil, _) in BROKEN.items():
        spoil(shutil.copytree(tiny_models.model("qwen3"), directory / name))
    good = ("--model", str(tiny_models.model("llama3")), "--name", "good")
    with hosting(None, *good, "--models-dir", str(directory)) as running:
        yield running


def ask(server: HostedServer, model: str, **more: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **more}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_model_fails_alone_with_a_clear_error(server: HostedServer, name: str) -> None:
    for more in ({}, {"stream": True}):
        refused = ask(server, name, **more)
        assert refused.status_code in (400, 500), refused.text
        message = refused.json()["error"]["message"]
        assert BROKEN[name][1] in message
        assert "\n" not in message
        assert str(Path.home()) not in message
    assert ask(server, "good").status_code == 200


def test_broken_models_are_listed(server: HostedServer) -> None:
    listed = {model["id"]: model for model in httpx.get(f"{server.url}/v1/models", timeout=60).json()["data"]}
    assert set(listed) == {"good", *BROKEN}
    assert all(listed[name]["state"] == "failed" for name in ("no-config", "no-json", "own-code"))
