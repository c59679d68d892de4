"""Which model a coding agent gets, and reasons against others."""

from typing import get_args

import pytest

from mlxctl.cli.launch import CLIENTS, AvailableModel, choose_model
from mlxctl.ir.errors import ClientNotReady
from mlxctl.library.detection import Kind

CODEX = CLIENTS["codex"]
GOOD = AvailableModel(name="good", context_length=40_000, supports_tools=True, weights_bytes=10)


def model(name: str, **changes: object) -> AvailableModel:
    values = {"context_length": 40_000, "supports_tools": True, "weights_bytes": 10, **changes}
    return AvailableModel(name=name, **values)  # type: ignore[arg-type]


def test_a_loaded_model_is_preferred_to_a_larger_one() -> None:
    chosen = choose_model(
        [model("large", weights_bytes=99), model("loaded", is_loaded=True)], CODEX, wanted=None
    )
    assert chosen.name == "loaded"


def test_a_probed_model_is_preferred_to_an_unprobed_one() -> None:
    chosen = choose_model(
        [model("large", weights_bytes=99), model("probed", is_probed=True)], CODEX, wanted=None
    )
    assert chosen.name == "probed"


def test_without_a_sufficient_model_each_reason_is_named() -> None:
    models = [
        model("short", context_length=4096),
        model("mute", supports_tools=False, is_probed=True),
        model("vectors", is_text=False),
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
        choose_model([GOOD], CODEX, wanted="other")


def test_a_server_that_says_nothing_of_tools_is_used() -> None:
    assert AvailableModel.of_card({"id": "foreign", "max_model_len": 65_536}).lacks(CLIENTS["claude"]) is None


def test_probing_overrules_the_chat_template() -> None:
    card = {"id": "x", "supports_tools": True, "probed": {"tools": "no"}, "max_model_len": 99_000}
    assert AvailableModel.of_card(card).lacks(CODEX) == "cannot call tools (probing found no tool calls)"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_kinds_without_text_are_no_text_models(kind: str) -> None:
    card = {"id": "m", "kind": kind, "supports_tools": True}
    assert AvailableModel.of_card(card).is_text == (kind in ("text", "vision", "unknown"))
