"""Agent traces: recorded requests of coding agents.

Two kinds of file are read: a JSON object per session, as kv-cache-tester records and AIPerf replays them
(`requests` of type `n`, `s` and `subagent`), and JSON Lines with an OpenAI chat request each. Texts of the
first kind are not recorded: a block of a hash id stands for tokens that requests share.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mlxctl.ir.errors import SettingsError

MAX_FILES = 1000
MAX_FILE_BYTES = 256 << 20
_DEFAULT_ANSWER_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One request of a trace.

    Either `messages`, with other `fields` of its body, or `num_prompt_tokens` in blocks of `block_size`
    tokens, of which requests share those of one id. `think_seconds` passed on the client before it.
    """

    num_answer_tokens: int
    num_prompt_tokens: int = 0
    block_size: float = 1.0
    block_ids: tuple[int, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    fields: dict[str, Any] | None = None
    think_seconds: float = 0.0

    @property
    def units(self) -> Iterator[tuple[Hashable, float]]:
        """The parts of the prompt, with lengths in tokens or characters."""
        if self.messages:
            for part in ((self.fields or {}).get("tools"), *self.messages):
                text = msgspec.json.encode(part)
                yield text, len(text)
        else:
            for position, block in enumerate(self.block_ids):
                if (rest := self.num_prompt_tokens - position * self.block_size) > 0:
                    yield (block, min(rest, self.block_size)), min(rest, self.block_size)
            if (rest := self.num_prompt_tokens - len(self.block_ids) * self.block_size) > 0:
                yield (len(self.block_ids), self.num_prompt_tokens), rest

    def scaled(self, share: float) -> "TraceRequest":
        """Return the request with `share` of its tokens in each block."""
        return replace(
            self,
            num_answer_tokens=max(1, round(share * self.num_answer_tokens)),
            num_prompt_tokens=max(1, round(share * self.num_prompt_tokens)),
            block_size=share * self.block_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSession:
    """Requests of one agent, in order.

    Each waits for the answer, or the subagents, before it.
    """

    name: str
    steps: "tuple[TraceRequest | tuple[TraceSession, ...], ...]"

    def requests(self) -> Iterator[TraceRequest]:
        """Yield the requests, those of subagents in their place."""
        for step in self.steps:
            if isinstance(step, TraceRequest):
                yield step
            else:
                for agent in step:
                    yield from agent.requests()

    def scaled(self, share: float) -> "TraceSession":
        """Return the session with `share` of its tokens."""
        return replace(
            self,
            steps=tuple(
                step.scaled(share)
                if isinstance(step, TraceRequest)
                else tuple(agent.scaled(share) for agent in step)
                for step in self.steps
            ),
        )


def read_traces(path: Path) -> list[TraceSession]:
    """Return the sessions of a file or directory.

    Of a directory, all `.json` and `.jsonl` files are read. Raises SettingsError.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".json", ".jsonl"))
    if not files or len(files) > MAX_FILES:
        raise SettingsError(f"{path}: expected 1 to {MAX_FILES} files that end with .json or .jsonl")
    sessions = [session for file in files for session in _read_file(file)]
    if not [request for session in sessions for request in session.requests()]:
        raise SettingsError(f"{path}: the trace has no requests")
    return sessions


def _read_file(file: Path) -> list[TraceSession]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise SettingsError(f"{file}: larger than {MAX_FILE_BYTES} bytes; split it into several files")
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror or error}") from None
    try:
        if file.suffix == ".jsonl":
            return _recorded_sessions(file, content)
        return [_hashed_session(_HASHED.decode(content))]
    except msgspec.DecodeError as error:
        raise SettingsError(f"{file}: {error}") from None


_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _Call(msgspec.Struct, tag_field="type"):
    num_prompt_tokens: _Count = msgspec.field(name="in")
    num_answer_tokens: _Count = msgspec.field(name="out")
    hash_ids: tuple[int, ...] = ()
    think_time: _Seconds | None = None


class _WholeCall(_Call, tag="n"):
    pass


class _StreamedCall(_Call, tag="s"):
    pass


class _Subagent(msgspec.Struct, tag_field="type", tag="subagent"):
    requests: list[_WholeCall | _StreamedCall]
    agent_id: str = "subagent"


class _HashedTrace(msgspec.Struct):
    requests: list[_WholeCall | _StreamedCall | _Subagent]
    block_size: Annotated[int, msgspec.Meta(ge=1)]
    id: str = "session"


_HASHED = msgspec.json.Decoder(_HashedTrace)


def _hashed_session(trace: _HashedTrace) -> TraceSession:
    steps: list[TraceRequest | tuple[TraceSession, ...]] = []
    for entry in trace.requests:
        if isinstance(entry, _Subagent):
            inner = tuple(_hashed_request(call, trace.block_size) for call in entry.requests)
            agent = TraceSession(name=f"{trace.id} {entry.agent_id}", steps=inner)
            # Subagents that follow each other ran at the same time.
            if steps and isinstance(steps[-1], tuple):
                steps[-1] = (*steps[-1], agent)
            else:
                steps.append((agent,))
        else:
            steps.append(_hashed_request(entry, trace.block_size))
    return TraceSession(name=trace.id, steps=tuple(steps))


def _hashed_request(call: _Call, block_size: int) -> TraceRequest:
    return TraceRequest(
        num_answer_tokens=max(1, call.num_answer_tokens),
        num_prompt_tokens=max(1, call.num_prompt_tokens),
        block_size=block_size,
        block_ids=call.hash_ids,
        think_seconds=call.think_time or 0.0,
    )


class _RecordedRequest(msgspec.Struct):
    messages: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    session_id: str = ""
    think_seconds: _Seconds = 0.0


_RECORDED = msgspec.json.Decoder(_RecordedRequest)


def _recorded_sessions(file: Path, content: bytes) -> list[TraceSession]:
    sessions: dict[str, list[TraceRequest]] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            recorded = _RECORDED.decode(line)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{file}, line {number}: {error}") from None
        sessions.setdefault(recorded.session_id, []).append(
            TraceRequest(
                num_answer_tokens=recorded.max_tokens or _DEFAULT_ANSWER_TOKENS,
                messages=recorded.messages,
                fields={"tools": recorded.tools} if recorded.tools else None,
                think_seconds=recorded.think_seconds,
            )
        )
    return [TraceSession(name=name, steps=tuple(requests)) for name, requests in sessions.items()]


def reusable(prompts: Iterable[Iterable[tuple[Hashable, float]]]) -> tuple[float, float]:
    """Return what a cache could reuse of the prompts, and their length.

    They arrive in this order. A prompt is a sequence of units, with lengths. A unit is reusable where an
    earlier prompt has it after the same units.
    """
    known: dict[Hashable, Any] = {}
    num_reusable = length = 0.0
    for prompt in prompts:
        node, is_known = known, True
        for unit, size in prompt:
            length += size
            is_known = is_known and unit in node
            num_reusable += size if is_known else 0
            node = node.setdefault(unit, {})
    return num_reusable, length
