"""What one practised conversation is, and how it becomes text: the same chat template that ships."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE_FILE = Path(__file__).parent / "chat_template.jinja"
END_OF_TURN = "<|im_end|>"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call the model should make; the order of the arguments is the order it should write them in."""

    name: str
    arguments: dict[str, Any]

    def as_text(self) -> str:
        body = json.dumps({"name": self.name, "arguments": self.arguments}, ensure_ascii=False)
        return f"<tool_call>\n{body}\n</tool_call>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A conversation up to the assistant's turn, and what the assistant should say.

    `thought` is written only when `thinking` is on. `answer` is the text after it; a call is written as in
    `ToolCall.as_text`. `ability` names what is practised.
    """

    ability: str
    messages: list[Message]
    answer: str
    thought: str
    tools: list[dict[str, Any]] | None = None
    thinking: bool = True

    def prompt(self) -> str:
        return render(self.messages, tools=self.tools, enable_thinking=self.thinking)

    def completion(self) -> str:
        thought = f"<think>\n{self.thought}\n</think>\n\n" if self.thinking else ""
        return f"{thought}{self.answer}{END_OF_TURN}"


def render(
    messages: list[Message], *, tools: list[dict[str, Any]] | None = None, enable_thinking: bool = True
) -> str:
    """Render a prompt that ends where the assistant begins, with the template that ships."""
    text: str = _template().render(
        messages=messages, tools=tools, enable_thinking=enable_thinking, add_generation_prompt=True
    )
    return text


@cache
def _template() -> Any:
    environment: Environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(TEMPLATE_FILE.read_text(encoding="utf-8"))


def _refuse(message: str) -> None:
    raise ValueError(message)


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def assistant_calls(calls: list[ToolCall]) -> Message:
    """Give the past turn in which the assistant made these calls."""
    functions = [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def tool_result(text: str) -> Message:
    return {"role": "tool", "content": text}
