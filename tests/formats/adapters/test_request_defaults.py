"""Server defaults precede those of the model, requests precede both."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter, RequestDefaults, create_adapter
from mlxctl.ir import GenerationRequest, SamplingOptions, ThinkingOptions
from mlxctl.library import read_model

from .directories import write_model
from .requests import ask, prepare, prompt_of

SERVER = SamplingOptions(temperature=0.3, top_p=0.5, top_k=7, seed=11)


def adapter(directory: Path, **defaults: Any) -> ModelAdapter:
    facts = read_model(write_model(directory, generation_config={"temperature": 0.9, "min_p": 0.2}))
    return create_adapter(facts, name="tiny", request_defaults=RequestDefaults(**defaults))


def test_server_defaults_come_between_request_and_generation_config(tmp_path: Path) -> None:
    sampling = prepare(adapter(tmp_path, sampling=SERVER), ask(sampling=SamplingOptions(top_k=3))).sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.3, 0.5, 3)
    assert (sampling.min_p, sampling.seed) == (0.2, 11)


def test_max_new_tokens_of_a_model_bounds_requests_that_set_none(tmp_path: Path) -> None:
    facts = read_model(write_model(tmp_path, generation_config={"max_new_tokens": 5}))
    model = create_adapter(facts, name="tiny")
    assert prepare(model, ask()).max_tokens == 5
    assert prepare(model, ask(max_tokens=9)).max_tokens == 9


@pytest.mark.parametrize("value", [0, -1, True, "5", None])
def test_max_new_tokens_that_is_no_limit_is_ignored(tmp_path: Path, value: object) -> None:
    facts = read_model(write_model(tmp_path, generation_config={"max_new_tokens": value}))
    assert facts.default_max_tokens is None


def test_default_max_tokens_of_a_protocol_yields_to_that_of_the_server(tmp_path: Path) -> None:
    assert prepare(adapter(tmp_path), ask(default_max_tokens=7)).max_tokens == 7
    assert prepare(adapter(tmp_path, max_tokens=5), ask(default_max_tokens=7)).max_tokens == 5


def test_default_max_tokens_bounds_requests_that_set_none(tmp_path: Path) -> None:
    model = adapter(tmp_path, max_tokens=5)
    assert prepare(model, ask()).max_tokens == 5
    assert prepare(model, ask(max_tokens=9)).max_tokens == 9


@pytest.mark.parametrize(
    ("asked", "thinks"),
    [({}, False), ({"enabled": True}, True), ({"effort": "high"}, True)],
    ids=["nothing", "switch", "effort"],
)
def test_request_overrides_the_server_thinking_default(
    tmp_path: Path, asked: dict[str, Any], thinks: bool
) -> None:
    request: GenerationRequest = ask(thinking=ThinkingOptions(**asked))
    without_thinking = "<think>\n\n</think>" in prompt_of(adapter(tmp_path, thinking=False), request)
    assert without_thinking is not thinks


def test_zero_turns_top_p_and_typical_p_off(tmp_path: Path) -> None:
    off = SamplingOptions(top_p=0.0, typical_p=0.0)
    sampling = prepare(adapter(tmp_path), ask(sampling=off)).sampling
    assert (sampling.top_p, sampling.typical_p) == (1.0, 1.0)
