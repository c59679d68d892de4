"""Training samples: a conversation, and its text by the shipped chat template."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mlxctl.library.demo import MODEL_DIR

TEMPLATE_FILE = MODEL_DIR / "chat_template.jinja"
END_OF_TURN = "<|im_end|>"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that the model should write, arguments in this order."""

    name: str
    arguments: dict[str, Any]

    def as_text(self) -> str:
        body = json.dumps({"name": self.name, "arguments": self.arguments}, ensure_ascii=False)
        return f"<tool_call>\n{body}\n</tool_call>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A conversation up to the assistant's turn, and the expected completion.

    `thought` is part of the completion only when `thinking` is on. `answer` is the text after it, a tool call
    as in `ToolCall.as_text`. `ability` groups samples in the report.
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
    """Render a prompt, with the generation prompt, by the shipped template."""
    text: str = _template().render(
        messages=messages, tools=tools, enable_thinking=enable_thinking, add_generation_prompt=True
    )
    return text


@cache
def _template() -> Any:
    environment: Environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise_value_error
    return environment.from_string(TEMPLATE_FILE.read_text(encoding="utf-8"))


def _raise_value_error(message: str) -> None:
    raise ValueError(message)


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def assistant_calls(calls: list[ToolCall]) -> Message:
    """Return an assistant message with these tool calls."""
    functions = [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def tool_result(text: str) -> Message:
    return {"role": "tool", "content": text}
