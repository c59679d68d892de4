"""Replays transcripts of generated text under every chunking.

A new format brings one file in `transcripts/`. `expect` lists the events in order: `["text", …]`,
`["thinking", …]`, `["call", name, arguments]`, and `["broken call", name, arguments]` for a call that was cut
off or cannot be closed. `is_cut_off` is true where the model did not end the answer itself. `continued` is
how a model continues after the forced prefix of a call of `f`, one text for each dialect, with the arguments
`{"text": "x \\"y\\" ü", "count": 7}`. `[[tool]]` tables are the available tools: a `name`, and `parameters`
as JSON text.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlxctl.formats.parsers import (
    THINKING_PARSER_IDS,
    TOOL_PARSER_IDS,
    AnswerMachine,
    ThinkingParser,
    ToolParser,
    thinking_parser,
    tool_parser,
)
from mlxctl.ir import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolSpec,
)

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One answer, its parsers and the expected events."""

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
    is_cut_off: bool = False

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
    """Load the continuations after forced prefixes, by format."""
    contents = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.toml"))]
    return {content["tools"]: content["continued"] for content in contents if "continued" in content}


def _read(path: Path) -> Iterator[Transcript]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    for field, ids in (("tools", TOOL_PARSER_IDS), ("thinking", THINKING_PARSER_IDS)):
        if (parser_id := content[field]) not in ids:
            raise ValueError(
                f"{path.name}: {field} = {parser_id!r} has no row in mlxctl/formats/parsers/registry.py"
            )
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
        values = {**shared, **case, "expect": tuple(tuple(parsed) for parsed in case["expect"])}
        values["stop"] = tuple(values.get("stop", ()))
        yield Transcript(id=f"{path.stem}: {values.pop('name')}", **values)


def play(transcript: Transcript, chunks: Iterable[str]) -> list[tuple[str, ...]]:
    """Feed the chunks to a new machine; return the folded events.

    Also checks the stop sequence.
    """
    machine = transcript.machine()
    events: list[StreamEvent] = []
    for chunk in chunks:
        if not machine.is_over:
            events += machine.feed(chunk)
    events += machine.finish(is_cut_off=transcript.is_cut_off)
    parsed = fold(events, num_complete_calls=machine.num_complete_calls)
    assert machine.stop_sequence == transcript.stop_sequence
    return parsed


def fold(events: Sequence[StreamEvent], *, num_complete_calls: int | None = None) -> list[tuple[str, ...]]:
    """Join adjacent deltas of the same kind.

    At most the last of the calls is broken, so their number tells which are complete.
    """
    parsed: list[tuple[str, ...]] = []
    calls: dict[int, list[str]] = {}
    for event in events:
        match event:
            case TextDelta() | ThinkingDelta():
                kind = "text" if isinstance(event, TextDelta) else "thinking"
                assert event.text, "an empty delta says nothing"
                before = parsed.pop()[1] if parsed and parsed[-1][0] == kind else ""
                parsed.append((kind, before + event.text))
            case ToolCallStarted():
                assert event.index == len(calls)
                calls[event.index] = [event.name, ""]
            case ToolArgumentsDelta():
                calls[event.index][1] += event.json
            case ToolCallEnded():
                is_broken = num_complete_calls is not None and event.index >= num_complete_calls
                parsed.append(("broken call" if is_broken else "call", *calls[event.index]))
            case _:
                pass
    return parsed


def chunkings(text: str) -> Iterator[list[str]]:
    """Yield chunkings: whole, small equal pieces, every cut.

    Several cuts are made at once, as far apart as most markers, or half the text.
    """
    yield [text]
    for size in (1, 3):
        yield [text[at : at + size] for at in range(0, len(text), size)]
    distance = len(text) // max(2, len(text) // 40)
    for at in range(1, distance + 1):
        yield cut(text, range(at, len(text), distance))


def cut(text: str, places: Iterable[int]) -> list[str]:
    """Cut the text at the given positions."""
    edges = sorted({0, len(text), *(place for place in places if place < len(text))})
    return [text[start:end] for start, end in pairwise(edges)]
