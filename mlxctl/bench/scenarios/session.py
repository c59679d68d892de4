"""A synthetic coding-agent session: system prompt, tools, and growing turns.

As with real agents, thousands of tokens stay constant and each turn adds a call and its result. The model's
answers are discarded and the written session continues, so that every server gets the same prompts.
"""

import json
from dataclasses import dataclass
from typing import Any

from mlxctl.bench.prompts import Prompts

_TASK_TOKENS = 48
_PATHS = (
    "src/main.py",
    "src/routes.py",
    "tests/test_main.py",
    "README.md",
    "pyproject.toml",
    "src/models/user.py",
)


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    _tool("read_file", "Read a file of the workspace.", path="Where it lies, relative to the workspace."),
    _tool(
        "write_file", "Replace a file of the workspace.", path="Where it lies.", content="All of its text."
    ),
    _tool("run_command", "Run a shell command in the workspace.", command="What to run."),
    _tool(
        "search", "Find lines that match a pattern.", pattern="A regular expression.", path="Where to look."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    """One session, determined by prompts and key.

    Lengths are in tokens. Without tools, calls are plain text.
    """

    prompts: Prompts
    key: str
    system_tokens: int
    result_tokens: int

    def messages(self, num_turns: int, *, agent: int = 0, uses_tools: bool) -> list[dict[str, Any]]:
        """Return the conversation after `num_turns` calls.

        Agents share everything except their task.
        """
        task = self.prompts.prose(f"task of agent {agent}", _TASK_TOKENS)
        head = [
            {"role": "system", "content": self._system(uses_tools)},
            {"role": "user", "content": f"Agent {agent}: {task}"},
        ]
        return head + [message for turn in range(num_turns) for message in self._turn(turn, uses_tools)]

    def _system(self, uses_tools: bool) -> str:
        text = self.prompts.text(self.key, self.system_tokens)
        return text if uses_tools else f"{text}\n\nTools: {json.dumps(TOOLS)}"

    def _turn(self, turn: int, uses_tools: bool) -> list[dict[str, Any]]:
        arguments = json.dumps({"path": _PATHS[turn % len(_PATHS)]})
        result = self.prompts.prose(f"result {turn}", self.result_tokens)
        if not uses_tools:
            return [
                {"role": "assistant", "content": f"read_file({arguments})"},
                {"role": "user", "content": f"Result of read_file:\n{result}"},
            ]
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "read_file", "arguments": arguments},
        }
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": result},
        ]
