"""Reuse of prompt tokens in agent sessions: 15 tools, 40 turns.

Two kinds of session over both protocols. Recorded: every answer is a prepared tool call with a result.
Generated: the model's answer is sent back, which shows whether its tokens match the cache. The first prompt
is cold, so the share is that of all later prompts; the detail has the share with the first prompt, and the
maximum: each token of the longest prompt computed once.
"""

import json
import random
import secrets
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server

_NUM_TURNS = 40
_NUM_TOOLS = 15
_SYSTEM_CHARS = 7000
_BAR = 0.97
_ANSWER_TOKENS = 24
_WORDS = (
    "read",
    "write",
    "file",
    "path",
    "line",
    "test",
    "build",
    "agent",
    "error",
    "check",
    "value",
    "module",
    "function",
    "result",
)


def replay(server: Server, family: str) -> Iterator[Finding]:
    """Measure both kinds of session over both protocols."""
    for protocol in (_Chat, _Messages):
        for is_recorded in (True, False):
            share, share_of_all, most = _session(server, protocol(), is_recorded=is_recorded)
            kind = "recorded" if is_recorded else "generated"
            name = f"{family}: reused share of prompt tokens, {_NUM_TURNS} {kind} turns over {protocol.path}"
            yield Finding(
                name, Ratio(share, share, share), _BAR, True, f"{share_of_all:.4f} of all, {most:.4f} at most"
            )


def _session(
    server: Server, protocol: "_Chat | _Messages", *, is_recorded: bool
) -> tuple[float, float, float]:
    generator = random.Random(4)
    # A unique system prompt, so that sessions do not share cache entries.
    system = f"You are agent {secrets.token_hex(4)}. " + _prose(generator, _SYSTEM_CHARS)
    counts: list[tuple[int, int]] = []
    question = _prose(generator, 200)
    protocol.begin(system, question)
    for turn in range(_NUM_TURNS):
        answer = _post(server, protocol.path, protocol.body())
        counts.append(protocol.tokens(answer))
        if is_recorded:
            protocol.add_call(turn, _prose(generator, 40), _prose(generator, generator.randrange(60, 240)))
        else:
            protocol.add_reply(answer, _prose(generator, 150))
    prompts = [prompt for prompt, _ in counts]
    return _share(counts[1:]), _share(counts), 1 - max(prompts) / sum(prompts)


def _share(counts: list[tuple[int, int]]) -> float:
    return sum(cached for _, cached in counts) / sum(prompt for prompt, _ in counts)


def _prose(generator: random.Random, num_chars: int) -> str:
    return " ".join(generator.choice(_WORDS) for _ in range(num_chars // 6))


def _post(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    body |= {"model": "default_model", "max_tokens": _ANSWER_TOKENS, "temperature": 0}
    address = f"http://127.0.0.1:{server.port}{path}"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _schema(index: int) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "description": f"The {name} of tool {index}."}
        for name in ("path", "pattern")
    }
    return {"type": "object", "properties": properties, "required": ["path"], "additionalProperties": False}


@dataclass
class _Chat:
    """The session as OpenAI chat completions."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    path = "/v1/chat/completions"

    def begin(self, system: str, question: str) -> None:
        self.messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]

    def body(self) -> dict[str, Any]:
        functions = [
            {"name": f"tool_{i}", "description": f"Does thing {i}.", "parameters": _schema(i)}
            for i in range(_NUM_TOOLS)
        ]
        return {
            "messages": self.messages,
            "tools": [{"type": "function", "function": function} for function in functions],
        }

    def tokens(self, answer: dict[str, Any]) -> tuple[int, int]:
        usage = answer["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def add_call(self, turn: int, subject: str, result: str) -> None:
        call_id = f"call_{turn:024d}"
        function = {"name": f"tool_{turn % _NUM_TOOLS}", "arguments": json.dumps({"path": subject})}
        call = {"id": call_id, "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def add_reply(self, answer: dict[str, Any], question: str) -> None:
        message = answer["choices"][0]["message"]
        self.messages.append(
            {
                key: message[key]
                for key in ("role", "content", "reasoning_content", "tool_calls")
                if key in message
            }
        )
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": question}
            for call in message.get("tool_calls") or ()
        ]
        self.messages.append({"role": "user", "content": question})


@dataclass
class _Messages:
    """The session as Anthropic messages."""

    system: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    path = "/v1/messages"

    def begin(self, system: str, question: str) -> None:
        self.system = system
        self.messages = [{"role": "user", "content": question}]

    def body(self) -> dict[str, Any]:
        tools = [
            {"name": f"tool_{i}", "description": f"Does thing {i}.", "input_schema": _schema(i)}
            for i in range(_NUM_TOOLS)
        ]
        return {"system": self.system, "messages": self.messages, "tools": tools}

    def tokens(self, answer: dict[str, Any]) -> tuple[int, int]:
        usage = answer["usage"]
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + usage["cache_creation_input_tokens"] + cached, cached

    def add_call(self, turn: int, subject: str, result: str) -> None:
        call_id = f"toolu_{turn:024d}"
        call = {
            "type": "tool_use",
            "id": call_id,
            "name": f"tool_{turn % _NUM_TOOLS}",
            "input": {"path": subject},
        }
        self.messages.append({"role": "assistant", "content": [call]})
        self.messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result}]}
        )

    def add_reply(self, answer: dict[str, Any], question: str) -> None:
        self.messages.append({"role": "assistant", "content": answer["content"]})
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": question}
            for block in answer["content"]
            if block["type"] == "tool_use"
        ]
        self.messages.append({"role": "user", "content": [*results, {"type": "text", "text": question}]})
