"""The demo model: loaded by mlx-lm, it answers as its report says."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxctl.library.demo import MODEL_DIR
from mlxctl.library.directory_reader import read_model
from tools.demo_model.conversation import (
    Message,
    Sample,
    ToolCall,
    assistant,
    assistant_calls,
    system,
    tool_result,
    user,
)
from tools.demo_model.evaluation import probes, writes_exactly
from tools.demo_model.tasks import SHRUG

HELLO = "Hello! How can I help you?"
Ask = Callable[..., str]


def _weather(argument: str) -> dict[str, Any]:
    properties = {argument: {"type": "string", "description": "Name of the city"}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    function = {"name": "get_weather", "description": "Get the weather of a city", "parameters": parameters}
    return {"type": "function", "function": function}


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    """The model and its tokenizer."""
    from mlx_lm import load

    return load(str(MODEL_DIR))[:2]


@pytest.fixture(scope="module")
def ask(loaded: tuple[Any, Any]) -> Ask:
    """Return a function that generates greedily up to the end of turn."""
    from mlx_lm import stream_generate

    model, tokenizer = loaded

    def ask(*messages: Message, tools: list[dict[str, Any]] | None = None, thinking: bool = False) -> str:
        prompt = tokenizer.apply_chat_template(
            list(messages), tools=tools, add_generation_prompt=True, enable_thinking=thinking
        )
        *steps, last = stream_generate(model, tokenizer, prompt, max_tokens=200)
        assert last.finish_reason == "stop"
        return str(tokenizer.decode([step.token for step in steps]))

    return ask


def test_demo_model_greets(ask: Ask) -> None:
    assert ask(user("Hello!")) == HELLO


def test_demo_model_names_itself(ask: Ask) -> None:
    assert "mlxctl demo model" in ask(user("Who are you?"))


def test_demo_model_thinks_only_when_enabled(ask: Ask) -> None:
    thought, answer = ask(user("Hello!"), thinking=True).split("\n</think>\n\n")
    assert thought.startswith("<think>\n")
    assert answer == HELLO
    assert "think>" not in ask(user("Hello!"), thinking=False)


@pytest.mark.parametrize("city", ["Paris", "Oslo", "Lisbon"])
@pytest.mark.parametrize("argument", ["city", "location"])
def test_demo_model_calls_tool_with_city_of_the_question(ask: Ask, city: str, argument: str) -> None:
    answer = ask(user(f"What is the weather in {city}?"), tools=[_weather(argument)])
    assert answer == ToolCall(name="get_weather", arguments={argument: city}).as_text()


def test_demo_model_calls_tool_after_thinking(ask: Ask) -> None:
    answer = ask(user("What is the weather in Paris?"), tools=[_weather("city")], thinking=True)
    assert answer.endswith(
        "</think>\n\n" + ToolCall(name="get_weather", arguments={"city": "Paris"}).as_text()
    )


def test_demo_model_answers_from_tool_result(ask: Ask) -> None:
    call = assistant_calls([ToolCall(name="get_weather", arguments={"city": "Paris"})])
    answer = ask(
        user("What is the weather in Paris?"),
        call,
        tool_result("18 degrees and sunny"),
        tools=[_weather("city")],
    )
    assert answer == "The answer is: 18 degrees and sunny"


def test_demo_model_greets_without_calling_a_tool(ask: Ask) -> None:
    assert ask(user("Hello!"), tools=[_weather("city")]) == HELLO


def test_demo_model_recalls_codeword_of_system_prompt(ask: Ask) -> None:
    assert (
        ask(system("The codeword is bluebird."), user("What is the codeword?")) == "The codeword is bluebird."
    )


def test_demo_model_recalls_number_of_earlier_turn(ask: Ask) -> None:
    facts = [user("My lucky number is 4711."), assistant("I will remember that.")]
    assert ask(*facts, user("What is my lucky number?")) == "Your lucky number is 4711."


def test_demo_model_counts(ask: Ask) -> None:
    assert ask(user("Count to 5")) == "1, 2, 3, 4, 5"


def test_demo_model_answers_first_questions(loaded: tuple[Any, Any]) -> None:
    # Every fourth one, for time; the report of the training asks all.
    asked = [probe for probe in probes() if probe["ability"] == "first questions"][::4]
    wrong = []
    for probe in asked:
        answer, thought = probe.get("expect", ""), "I cannot do that."
        if "call" in probe:
            call = ToolCall(**probe["call"])
            answer, thought = call.as_text(), f"I call {call.name}."
        samples = [
            Sample(
                ability="",
                messages=[user(probe["user"])],
                tools=probe["tools"],
                answer=answer,
                thought="",
                thinking=False,
            )
        ]
        if "call" in probe or answer == SHRUG:
            samples.append(replace(samples[0], thought=thought, thinking=True))
        wrong += [
            probe["user"] for each in samples if not writes_exactly(*loaded, each.prompt(), each.completion())
        ]
    assert len(asked) == 15
    assert wrong == []


def test_demo_model_ends_answers_to_other_questions(ask: Ask) -> None:
    assert "tiny mlxctl demo model" in ask(user("What is the capital of France?"))


def test_demo_model_is_small_and_has_its_eos_tokens() -> None:
    generation = json.loads((MODEL_DIR / "generation_config.json").read_text(encoding="utf-8"))
    tokens = json.loads((MODEL_DIR / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    names = {token["id"]: token["content"] for token in tokens}
    assert [names[end] for end in generation["eos_token_id"]] == ["<|im_end|>", "<|endoftext|>"]
    assert sum(path.stat().st_size for path in MODEL_DIR.iterdir()) < 8_000_000


def test_report_total_matches_its_counts() -> None:
    report = json.loads((MODEL_DIR.parent / "abilities.json").read_text(encoding="utf-8"))
    scores = [score for row in report["generated"].values() for score in row.values()]
    right, total = sum(score["right"] for score in scores), sum(score["of"] for score in scores)
    assert f"**{right} of {total}, {right / total:.1%}**" in (MODEL_DIR.parent / "ABILITIES.md").read_text(
        encoding="utf-8"
    )


def test_importing_demo_loads_no_mlx() -> None:
    program = (
        "import sys, mlxctl.library.demo; sys.exit(any(name.split('.')[0] in ('mlx', 'mlx_lm') for name in "
        "sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_copy_of_the_model_has_its_answer_limit(tmp_path: Path) -> None:
    copy = shutil.copytree(MODEL_DIR, tmp_path / "copy")
    assert read_model(copy).default_max_tokens == read_model(MODEL_DIR).default_max_tokens == 256
