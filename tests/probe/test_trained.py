"""Models trained to call tools, probed under neutral names."""

from pathlib import Path

import httpx
import pytest
from server.hosted import hosting

from mlxctl.probe.questions import TOOL_QUESTIONS
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models

from .conftest import ask_only, probed, target

# The call format of each; None calls tools that were not offered.
FORMATS = {
    "qwen3_tools": "hermes_json",
    "glm4_tools": "glm4_native",
    "llama_json_tools": "llama_python",
    "lfm2_tools": "liquid_python",
    "mistral_tools": "mistral",
    "llama_coder_tools": "qwen3_coder",
    "llama_false_tools": None,
}
QUESTION = TOOL_QUESTIONS[0]


@pytest.mark.parametrize("name", tiny_models.TRAINED_NAMES)
def test_trained_call_format_is_found(name: str, store: CapabilityStore) -> None:
    model = tiny_models.trained(name)
    ask_only(store, model, "tools")
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    tools = outcome.record.finding("tools")
    assert tools is not None
    assert (tools.verdict, tools.value.get("parser")) == (
        ("yes", FORMATS[name]) if FORMATS[name] else ("no", None)
    )
    if FORMATS[name]:
        assert tools.exchanges[0].parser_id == FORMATS[name]
        assert QUESTION.value in tools.exchanges[0].output


def test_probed_model_serves_tools_over_both_protocols(tmp_path: Path) -> None:
    model = tiny_models.trained("llama_json_tools")
    store = CapabilityStore(tmp_path / "mlxctl" / "capabilities.sqlite")
    ask_only(store, model, "tools")
    probed([target(model)], store)
    store.close()
    schema = dict(QUESTION.tool.parameters)
    function = {"name": QUESTION.tool.name, "description": QUESTION.tool.description}
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": QUESTION.text}],
        "max_tokens": 64,
        "temperature": 0,
    }
    with hosting(model, XDG_STATE_HOME=str(tmp_path)) as server:
        listed = httpx.get(f"{server.url}/v1/models").json()["data"][0]
        tools = [{"type": "function", "function": {**function, "parameters": schema}}]
        chat = httpx.post(
            f"{server.url}/v1/chat/completions", json={**body, "tools": tools}, timeout=60
        ).json()
        tools = [{**function, "input_schema": schema}]
        message = httpx.post(f"{server.url}/v1/messages", json={**body, "tools": tools}, timeout=60).json()
    assert listed["probed"]["tools"] == "yes"
    called = chat["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (called["name"], called["arguments"]) == (QUESTION.tool.name, '{"city": "Lisbon"}')
    assert [(part["name"], part["input"]) for part in message["content"]] == [
        (QUESTION.tool.name, {"city": "Lisbon"})
    ]
