"""Which model a coding agent gets, and reasons against others."""

import json
from typing import get_args

import pytest

from mlxctl.cli.launch import CLIENTS, choose_model
from mlxctl.cli.launch.model_choice import lacks
from mlxctl.inference.remote.model_list import RemoteModel, read_models
from mlxctl.ir.errors import ClientNotReady
from mlxctl.library.detection import Kind

CODEX = CLIENTS["codex"]


def model(name: str, **changes: object) -> RemoteModel:
    card = {"id": name, "max_model_len": 40_000, "supports_tools": True, "size_bytes": 10}
    return listed(**{**card, "state": "not_loaded", **changes})


def listed(**card: object) -> RemoteModel:
    (found,) = read_models(json.dumps({"data": [card]}).encode(), url="http://server")
    return found


def test_a_loaded_model_is_preferred_to_a_larger_one() -> None:
    chosen = choose_model(
        [model("large", size_bytes=99), model("loaded", state="loaded")], CODEX, wanted=None
    )
    assert chosen.name == "loaded"


def test_a_probed_model_is_preferred_to_an_unprobed_one() -> None:
    chosen = choose_model(
        [model("large", size_bytes=99), model("probed", probed={"tools": "yes"})], CODEX, wanted=None
    )
    assert chosen.name == "probed"


def test_without_a_sufficient_model_each_reason_is_named() -> None:
    models = [
        model("short", max_model_len=4096),
        model("mute", probed={"tools": "no"}),
        model("vectors", kind="embeddings"),
        model("broken", problem="its weights are missing"),
    ]
    with pytest.raises(ClientNotReady) as error:
        choose_model(models, CODEX, wanted=None)
    text = str(error.value)
    assert "short: context of 4,096 tokens; codex needs 20,000" in text
    assert "mute: cannot call tools (probing found no tool calls)" in text
    assert "vectors: generates no text" in text
    assert "broken: its weights are missing" in text


def test_an_unknown_name_lists_the_names_of_the_server() -> None:
    with pytest.raises(ClientNotReady, match="no model 'other'; it has good"):
        choose_model([model("good")], CODEX, wanted="other")


def test_a_server_that_says_nothing_of_tools_is_used() -> None:
    assert lacks(listed(id="foreign", max_model_len=65_536), CLIENTS["claude"]) is None


def test_probing_overrules_the_chat_template() -> None:
    found = model("x", supports_tools=True, probed={"tools": "no"})
    assert lacks(found, CODEX) == "cannot call tools (probing found no tool calls)"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_kinds_without_text_are_no_text_models(kind: str) -> None:
    assert (lacks(model("m", kind=kind), CODEX) is None) == (kind in ("text", "vision", "unknown"))
