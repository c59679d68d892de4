"""Structured output and tool calls of a real model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_models.asking import ask_all, calling, question
from tests.real_models.judgment import problems_of, problems_of_calls
from tests.real_models.prompts import PROMPTS
from tests.real_models.schemas import SHORT, response_format
from tests.real_models.tools import QUESTIONS, TOOLS
from tests.server.process import ServerProcess, serving

_TOOLS = [TOOLS[name] for name in ("get_weather", "convert_currency", "create_issue")]
_FORCED = {
    f"{text} {choice}": calling(text, _TOOLS, choice, parallel_tool_calls=False)
    for name, text in QUESTIONS[:10:9]
    for choice in (name, "required")
}
_FREE = {
    QUESTIONS[0][1]: _TOOLS,
    QUESTIONS[3][1]: [TOOLS["send_email"]],
    QUESTIONS[18][1]: _TOOLS,
    PROMPTS["greeting"]: _TOOLS,
    PROMPTS["capital"]: _TOOLS,
}


@pytest.fixture(scope="module")
def server(real_model: Path) -> Iterator[ServerProcess]:
    with serving(real_model) as running:
        yield running


@pytest.fixture(scope="module")
def structured(server: ServerProcess) -> dict[str, dict[str, Any]]:
    """Answers by the name of their schema, generated in one batch."""
    bodies = [
        question(text, max_tokens=64, response_format=response_format(name))
        for name, (text, _) in SHORT.items()
    ]
    return dict(zip(SHORT, ask_all(server.url, "tiny", bodies), strict=True))


@pytest.mark.parametrize("name", SHORT)
def test_structured_answer_is_valid_and_ends(structured: dict[str, dict[str, Any]], name: str) -> None:
    (choice,) = structured[name]["choices"]
    assert choice["finish_reason"] == "stop"
    assert problems_of(choice["message"]["content"], SHORT[name][1]) == []


def test_structured_answers_have_the_tokens_of_their_texts(
    server: ServerProcess, structured: dict[str, dict[str, Any]]
) -> None:
    num_generated = num_canonical = 0
    for answer in structured.values():
        text = answer["choices"][0]["message"]["content"]
        body = {"model": "tiny", "prompt": text, "add_special_tokens": False}
        tokens = httpx.post(f"{server.url}/tokenize", json=body).raise_for_status().json()["tokens"]
        num_generated += answer["usage"]["completion_tokens"]
        # The end token is one more.
        num_canonical += len(tokens) + 1
    assert num_generated <= 1.01 * num_canonical


@pytest.fixture(scope="module")
def forced(server: ServerProcess) -> dict[str, dict[str, Any]]:
    """The choices with forced calls, generated in one batch."""
    bodies = [{"max_tokens": 64, **body} for body in _FORCED.values()]
    answers = ask_all(server.url, "tiny", bodies)
    return {name: answer["choices"][0] for name, answer in zip(_FORCED, answers, strict=True)}


@pytest.mark.parametrize("name", _FORCED)
def test_forced_call_is_valid(forced: dict[str, dict[str, Any]], name: str) -> None:
    choice = forced[name]
    assert choice["finish_reason"] == "tool_calls"
    assert problems_of_calls(choice, _TOOLS) == []


def test_automatic_calls_are_valid_ones_of_offered_tools(server: ServerProcess) -> None:
    bodies = [calling(text, tools, "auto", max_tokens=40) for text, tools in _FREE.items()]
    choices = [answer["choices"][0] for answer in ask_all(server.url, "tiny", bodies)]
    problems = [
        problems_of_calls(choice, tools) for choice, tools in zip(choices, _FREE.values(), strict=True)
    ]
    assert problems == [[]] * len(_FREE)
    assert all(choice["message"]["content"] or choice["message"]["tool_calls"] for choice in choices)
