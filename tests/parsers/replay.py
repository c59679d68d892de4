"""Replays transcripts: what a model said, and what has to come out of it however the text arrives.

A new parser brings one file in `transcripts/`; every transcript in it is replayed under every chunking.
`expect` lists what is said, in order: `["text", …]`, `["thinking", …]`, `["call", name, arguments]`, and
`["broken call", name, arguments]` for a call that was cut off or malformed. `continued` is how a model goes
on behind the forced prefix of a call of `f`, one text for each dialect, with the arguments `{"text": "x
\\"y\\" ü", "count": 7}`. `[[tool]]` tables give the tools on offer: a `name`, and `parameters` as JSON text.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlxctl.ir import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolSpec,
)
from mlxctl.parsers import AnswerMachine, ThinkingParser, ToolParser, thinking_parser, tool_parser

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One answer, the parsers that read it, and what it says."""

    id: str
    text: str
    expect: tuple[tuple[str, ...], ...]
    tools: str
    thinking: str
    tool_specs: tuple[ToolSpec, ...] = ()
    prompt_tail: str = ""
    stop: tuple[str, ...] = ()
    max_calls: int | None = None
    stop_sequence: str | None = None

    @property
    def tool_parser(self) -> ToolParser:
        return tool_parser(self.tools)

    @property
    def thinking_parser(self) -> ThinkingParser:
        return thinking_parser(self.thinking)

    def machine(self) -> AnswerMachine:
        return AnswerMachine(
            tools=self.tool_parser,
            thinking=self.thinking_parser,
            tool_specs=self.tool_specs,
            stop=self.stop,
            prompt_tail=self.prompt_tail,
            max_calls=self.max_calls,
        )


def load_transcripts(directory: Path = TRANSCRIPTS) -> list[Transcript]:
    """Load the transcripts of all files in a directory."""
    return [transcript for path in sorted(directory.glob("*.toml")) for transcript in _read(path)]


def load_continued(directory: Path = TRANSCRIPTS) -> dict[str, list[str]]:
    """Load how calls go on behind their forced prefixes, by format."""
    contents = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.toml"))]
    return {content["tools"]: content["continued"] for content in contents if "continued" in content}


def _read(path: Path) -> Iterator[Transcript]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tool_specs = tuple(
        ToolSpec(name=tool["name"], parameters=json.loads(tool["parameters"]))
        for tool in content.get("tool", ())
    )
    shared: dict[str, Any] = {
        "tools": content["tools"],
        "thinking": content["thinking"],
        "tool_specs": tool_specs,
    }
    for case in content["transcript"]:
        values = {**shared, **case, "expect": tuple(tuple(said) for said in case["expect"])}
        values["stop"] = tuple(values.get("stop", ()))
        yield Transcript(id=f"{path.stem}: {values.pop('name')}", **values)


def play(transcript: Transcript, chunks: Iterable[str]) -> list[tuple[str, ...]]:
    """Feed the chunks to a fresh machine and fold what it says; checks how it ended, too."""
    machine = transcript.machine()
    events: list[StreamEvent] = []
    for chunk in chunks:
        if not machine.is_over:
            events += machine.feed(chunk)
    events += machine.finish()
    said = fold(events, num_complete_calls=machine.num_complete_calls)
    assert machine.stop_sequence == transcript.stop_sequence
    return said


def fold(events: Sequence[StreamEvent], *, num_complete_calls: int | None = None) -> list[tuple[str, ...]]:
    """Join adjacent deltas.

    At most the last of the calls is broken, so their number tells which are complete.
    """
    said: list[tuple[str, ...]] = []
    calls: dict[int, list[str]] = {}
    for event in events:
        match event:
            case TextDelta() | ThinkingDelta():
                kind = "text" if isinstance(event, TextDelta) else "thinking"
                assert event.text, "an empty delta says nothing"
                before = said.pop()[1] if said and said[-1][0] == kind else ""
                said.append((kind, before + event.text))
            case ToolCallStarted():
                assert event.index == len(calls)
                calls[event.index] = [event.name, ""]
            case ToolArgumentsDelta():
                calls[event.index][1] += event.json
            case ToolCallEnded():
                is_broken = num_complete_calls is not None and event.index >= num_complete_calls
                said.append(("broken call" if is_broken else "call", *calls[event.index]))
            case _:
                pass
    return said


def chunkings(text: str) -> Iterator[list[str]]:
    """Every way that is likely to hurt: whole, in equal pieces of every small size, and cut in two at every
    place.
    """
    yield [text]
    for size in (1, 2, 3, 5, 7):
        yield [text[at : at + size] for at in range(0, len(text), size)]
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


def cut(text: str, places: Iterable[int]) -> list[str]:
    """Cut the text at the given places."""
    edges = sorted({0, len(text), *(place for place in places if place < len(text))})
    return [text[start:end] for start, end in pairwise(edges)]
