"""LoRA adapters over HTTP.

Names, mounting, errors in each protocol, and a trained adapter.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from tests import tiny_models
from tests.tiny_models import adapters

from .process import ServerProcess, serving, wait_for

PROMPTS = ("The sky is", "A number:", "Hello, who")
ANSWER = " trained answer"


@dataclass(frozen=True)
class LoraServer:
    """A server with the adapter `trained`; further adapters are below `directory`."""

    process: ServerProcess
    directory: Path

    def post(self, route: str, /, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.process.url}{route}", json=body, timeout=60)

    def complete(self, **fields: Any) -> str:
        body = {"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 16, "temperature": 0} | fields
        answer = self.post("/v1/completions", **body).raise_for_status().json()
        text: str = answer["choices"][0]["text"]
        return text


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoraServer]:
    base, directory = tiny_models.model("qwen3"), tmp_path_factory.mktemp("adapters")
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    end = tokenizer.token_to_id("<|im_end|>")
    trained = adapters.trained_adapter(
        base,
        prompts=[tokenizer.encode(prompt).ids for prompt in PROMPTS],
        answer=[*tokenizer.encode(ANSWER).ids, end],
    )
    adapters.random_adapter(base, directory / "noise", seed=5, size=0.2)
    adapters.random_adapter(tiny_models.model("lfm2"), directory / "other_base", seed=5)
    with serving(base, "--adapter", f"trained={trained}", MLXCTL_ADAPTERS_DIRS=str(directory)) as process:
        yield LoraServer(process, directory)


@pytest.mark.parametrize("name", ["tiny", "tiny:trained", "trained"])
def test_guardrails_of_a_model_apply_to_its_adapters(lora: LoraServer, name: str) -> None:
    rules = f"{lora.process.url}/admin/guardrails"
    assert httpx.put(rules, json={"blocklist": ["sky"], "models": ["tiny"]}).is_success
    try:
        refused = lora.post("/v1/completions", model=name, prompt=PROMPTS[0], max_tokens=1)
    finally:
        httpx.put(rules, json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "content_filter")


def test_trained_adapter_answers_otherwise(lora: LoraServer) -> None:
    plain = lora.complete()

    assert lora.complete(model="tiny:trained") == ANSWER
    assert lora.complete(model="trained") == ANSWER
    assert lora.complete(model="any-other-name:trained") == ANSWER
    assert lora.complete(model="any-other-name") == plain
    assert lora.complete(adapter="trained") == ANSWER
    assert lora.complete(lora=[{"name": "trained", "scale": 1.0}]) == ANSWER
    assert lora.complete(adapter="none") == plain != ANSWER
    assert lora.complete(lora=[{"name": "trained", "scale": 0.0}]) == plain


def test_every_protocol_takes_an_adapter(lora: LoraServer) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    chat = {"messages": messages, "max_tokens": 12, "temperature": 0}

    def texts(**fields: Any) -> list[str]:
        answers = [
            lora.post("/v1/chat/completions", **chat, **fields),
            lora.post("/v1/messages", **chat, **fields),
            lora.post("/v1/responses", input="Hello", max_output_tokens=12, temperature=0, **fields),
        ]
        bodies = [answer.raise_for_status().json() for answer in answers]
        return [
            str(bodies[0]["choices"][0]["message"]),
            str(bodies[1]["content"]),
            str([item.get("content") or item.get("summary") for item in bodies[2]["output"]]),
        ]

    plain, by_name = texts(model="tiny"), texts(model="tiny:trained")
    by_field = texts(model="tiny", adapter="trained")

    assert all(one != other for one, other in zip(plain, by_name, strict=True))
    assert [len(each) for each in by_field] == [len(each) for each in by_name]


def test_adapters_are_listed_as_models(lora: LoraServer) -> None:
    models = {each["id"]: each for each in httpx.get(f"{lora.process.url}/v1/models").json()["data"]}
    one = httpx.get(f"{lora.process.url}/v1/models/tiny:trained").json()

    assert models["tiny"]["parent"] is None
    assert models["tiny:trained"]["parent"] == one["parent"] == "tiny"


def test_ollama_and_lm_studio_know_adapters(lora: LoraServer) -> None:
    body = {"prompt": PROMPTS[0], "raw": True, "stream": False}
    options = {"temperature": 0, "num_predict": 16}
    names = (
        {"model": "tiny:trained"},
        {"model": "tiny:trained:latest"},
        {"model": "tiny", "adapter": "trained"},
    )
    answers = [
        lora.post("/api/generate", **body, **fields, options=options).raise_for_status().json()["response"]
        for fields in names
    ]
    tags = {each["name"]: each for each in httpx.get(f"{lora.process.url}/api/tags").json()["models"]}
    shown = lora.post("/api/show", model="tiny:trained").raise_for_status().json()
    listed = httpx.get(f"{lora.process.url}/api/v0/models").json()["data"]

    assert answers == [ANSWER] * 3
    assert tags["tiny:trained"]["details"] == shown["details"]
    assert shown["details"] == tags["tiny"]["details"] | {"parent_model": "tiny"}
    assert "tiny:trained" in [each["id"] for each in listed]
    assert httpx.get(f"{lora.process.url}/api/v0/models/tiny:trained").json()["id"] == "tiny:trained"
    assert lora.post("/api/show", model="tiny:missing").status_code == 404


def test_adapter_is_mounted_and_unmounted(lora: LoraServer) -> None:
    plain = lora.complete()
    mounted = lora.post("/v1/adapters", id="noise", path="noise").raise_for_status().json()
    noisy = lora.complete(model="tiny:noise")
    both = lora.complete(model="tiny:trained+noise")
    listed = httpx.get(f"{lora.process.url}/v1/adapters").json()["adapters"]
    again = lora.post("/v1/adapters", id="noise", path="noise")
    removed = httpx.delete(f"{lora.process.url}/v1/adapters/noise", timeout=60)

    assert (mounted["model"], mounted["rank"], mounted["path"]) == ("tiny", 4, "noise")
    assert len({plain, noisy, both}) == 3
    assert {each["id"] for each in listed} == {"trained", "noise"}
    assert (again.status_code, removed.status_code) == (409, 200)
    assert lora.post("/v1/completions", model="tiny:noise", prompt="x").status_code == 404
    assert lora.complete() == plain
    assert httpx.delete(f"{lora.process.url}/v1/adapters/noise").status_code == 404


def test_adapter_is_mounted_by_vllm_names(lora: LoraServer) -> None:
    mounted = lora.post("/v1/load_lora_adapter", lora_name="vllm", lora_path=str(lora.directory / "noise"))
    text = lora.complete(model="vllm")
    removed = lora.post("/v1/unload_lora_adapter", lora_name="vllm")

    assert (mounted.status_code, removed.status_code) == (200, 200)
    assert text != lora.complete()
    assert lora.post("/v1/unload_lora_adapter", lora_name="vllm").status_code == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc", "not below a directory of adapters.dirs"),
        ("../trained", "not below a directory of adapters.dirs"),
        ("nothing", "there is no adapter 'nothing'"),
        ("no\0thing", "printable characters"),
        ("a" * 300, "File name too long"),
        ("other_base", "has no layer"),
        ("link", "outside adapters.dirs"),
    ],
)
def test_bad_paths_are_refused(lora: LoraServer, path: str, words: str, tmp_path: Path) -> None:
    link = lora.directory / "link"
    if not link.exists():
        link.mkdir()
        shutil.copytree(lora.directory / "noise", tmp_path / "outside")
        for file in (tmp_path / "outside").iterdir():
            (link / file.name).symlink_to(file)
    before = lora.complete()
    answer = lora.post("/v1/adapters", id="bad", path=path)

    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "path"
    assert lora.complete() == before


def test_refused_unmount_disturbs_no_request(lora: LoraServer) -> None:
    body = {"model": "tiny:trained", "prompt": "x", "stream": True, "min_tokens": 1500, "max_tokens": 1500}
    url = f"{lora.process.url}/v1/completions"
    with httpx.stream("POST", url, json=body, timeout=60) as stream, ThreadPoolExecutor(8) as pool:
        lines = stream.iter_lines()
        next(lines)
        removals = [
            pool.submit(httpx.delete, f"{lora.process.url}/v1/adapters/trained", timeout=60) for _ in range(8)
        ]
        texts = [pool.submit(lora.complete, model="tiny:trained") for _ in range(8)]
        assert [each.result().status_code for each in removals] == [409] * 8
        assert [each.result() for each in texts] == [ANSWER] * 8


def test_unknown_adapters_are_named(lora: LoraServer) -> None:
    by_field = lora.post("/v1/completions", model="tiny", prompt="x", adapter="missing")
    message = lora.post(
        "/v1/messages",
        model="tiny",
        messages=[{"role": "user", "content": "x"}],
        max_tokens=1,
        adapter="missing",
    )
    twice = lora.post("/v1/completions", model="tiny:trained", prompt="x", adapter="trained")

    assert (by_field.status_code, by_field.json()["error"]["param"]) == (400, "adapter")
    assert "'missing' is not mounted" in message.json()["error"]["message"]
    assert message.json()["error"]["type"] == "invalid_request_error"
    assert twice.status_code == 400
    assert lora.post("/v1/completions", model="tiny:missing", prompt="x").status_code == 404


def test_changed_adapter_is_explained(lora: LoraServer) -> None:
    content = "The hills are old and the sea is wide. " * 8
    for fields in ({}, {"adapter": "trained"}):
        messages = [{"role": "user", "content": content}]
        lora.post("/v1/chat/completions", model="tiny", messages=messages, max_tokens=2, **fields)

    found = httpx.get(f"{lora.process.url}/cache/explain", params={"last": 1}, timeout=60).json()[
        "explanations"
    ]

    assert found[0]["reason"] == "adapter_changed"
    assert found[0]["num_cached_tokens"] == 0


def test_adapters_survive_an_engine_restart(lora: LoraServer) -> None:
    lost = lora.process.engine_pid()
    os.kill(lost, signal.SIGKILL)
    wait_for(lambda: (lora.process.health()["engine"] or {}).get("pid", lost) != lost, seconds=60)
    lora.process.wait_ready()

    assert lora.complete(model="tiny:trained") == ANSWER
