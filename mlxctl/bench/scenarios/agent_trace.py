"""Replay of recorded agent sessions."""

import asyncio
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample, percentile_figures, percentiles
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget
from mlxctl.bench.traces import TraceRequest, TraceSession, reusable
from mlxctl.ir.errors import InvalidRequest, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrace:
    """The `sessions` of a trace, `num_agents` at once.

    Each request follows the answer before it. Waits of the client between requests are kept up to
    `max_think_seconds`. Answers have the recorded length; their text is discarded, so that every server gets
    the same prompts.
    """

    path: Path
    sessions: tuple[TraceSession, ...]
    num_agents: int = 4
    max_think_seconds: float = 0.0
    scale: float = 1.0

    name: ClassVar[str] = "agents"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="jobs_per_hour", unit="jobs/h", better="higher", meaning="sessions that were finished"),
        *percentile_figures("turn", "whole turn"),
        *percentile_figures("ttft", "time to first token"),
        Figure(
            name="tokens_per_second",
            unit="tokens/s",
            better="higher",
            meaning="all answers, from first request to last end",
        ),
        Figure(
            name="cached_share",
            unit="share",
            better="higher",
            meaning="of all prompts, as reported by the server",
        ),
        Figure(
            name="cached_of_possible",
            unit="share",
            better="higher",
            meaning="that share, divided by the best possible of the trace",
        ),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(title="whole turn", bars=(("p50", "turn_p50"), ("p95", "turn_p95"), ("p99", "turn_p99"))),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "trace": self.path.name,
            "num_sessions": len(self.sessions),
            "num_requests": sum(1 for session in self.sessions for _ in session.requests()),
            "num_agents": self.num_agents,
            "max_think_seconds": self.max_think_seconds,
            "scale": self.scale,
        }

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Replay all sessions."""
        sessions = [session.scaled(self.scale) for session in self.sessions]
        replay = _Replay(target, prompts, key, max_think_seconds=self.max_think_seconds)
        replay.prepare(sessions)
        waiting = sessions[::-1]

        async def work() -> None:
            while waiting:
                await replay.run(waiting.pop())

        started = time.monotonic()
        await asyncio.gather(*(work() for _ in range(min(self.num_agents, len(sessions)))))
        return replay.sample(sessions, seconds=time.monotonic() - started)


class _Replay:
    """One round on one server."""

    def __init__(self, target: BenchTarget, prompts: Prompts, key: str, *, max_think_seconds: float) -> None:
        self._target = target
        self._prompts = prompts
        self._key = key
        self._max_think_seconds = max_think_seconds
        self._blocks: dict[tuple[str, int], list[str]] = {}
        self._answered: list[tuple[str, TraceRequest, Stream]] = []
        self._incomplete: set[str] = set()
        self._refusal: str | None = None

    def prepare(self, sessions: Sequence[TraceSession]) -> None:
        """Write the texts of all blocks, before the clock starts."""
        for session in sessions:
            for request in session.requests():
                for block in request.block_ids:
                    name = (session.name, block)
                    if name not in self._blocks:
                        num_tokens = int(request.block_size + 2 * self._prompts.tokens_per_word)
                        text = self._prompts.prose(f"{session.name} {block}", num_tokens)
                        self._blocks[name] = text.split()

    async def run(self, session: TraceSession, *, root: str | None = None) -> None:
        """Send the requests of a session; subagents at the same time."""
        name = root or session.name
        for step in session.steps:
            if isinstance(step, TraceRequest):
                await self._ask(step, name)
            else:
                await asyncio.gather(*(self.run(agent, root=name) for agent in step))

    async def _ask(self, request: TraceRequest, session: str) -> None:
        room = self._target.room(max_tokens=request.num_answer_tokens)
        if room is not None and request.num_prompt_tokens > room:
            self._leave_out(session, "requests that are longer than the model's context were left out")
            return
        messages = self._messages(request, session)
        await asyncio.sleep(min(request.think_seconds, self._max_think_seconds))
        try:
            stream = await self._target.ask(
                messages, max_tokens=request.num_answer_tokens, **(request.fields or {})
            )
        except InvalidRequest as error:
            if self._refusal is None:
                self._refusal = f"requests were refused and left out, the first with: {error}"
            self._leave_out(session, self._refusal)
            return
        self._answered.append((session, request, stream))

    def _leave_out(self, session: str, note: str) -> None:
        self._incomplete.add(session)
        self._target.note(f"{note}; their sessions do not count as finished")

    def _messages(self, request: TraceRequest, session: str) -> list[dict[str, Any]]:
        # No server may know the trace from an earlier round.
        start = self._prompts.text(self._key, 1)
        if request.messages:
            first, *others = request.messages
            content = first.get("content")
            parts = [{"type": "text", "text": start}, *content] if isinstance(content, list) else None
            return [{**first, "content": parts or f"{start} {content or ''}"}, *others]
        words, size = [start], request.block_size / self._prompts.tokens_per_word
        for position, block in enumerate(request.block_ids):
            # Rounded by position, so that errors do not add up.
            num_words = round((position + 1) * size) - round(position * size)
            words += self._blocks[session, block][:num_words]
        num_words = max(1, round(request.num_prompt_tokens / self._prompts.tokens_per_word))
        if len(words) < num_words:
            key = f"{session} {len(request.block_ids)} {request.num_prompt_tokens}"
            words += self._prompts.prose(key, request.num_prompt_tokens).split()
        return user(" ".join(words[:num_words]))

    def sample(self, sessions: Sequence[TraceSession], *, seconds: float) -> Sample:
        """Return the figures of the round. Raises SettingsError without answers."""
        streams = [stream for _, _, stream in self._answered]
        if not streams:
            raise SettingsError(
                "no request of the trace fits into the model's context; shorten them with --scale"
            )
        num_finished = sum(session.name not in self._incomplete for session in sessions)
        figures = {
            "jobs_per_hour": 3600 * num_finished / seconds,
            **percentiles("turn", [stream.seconds for stream in streams]),
            **percentiles("ttft", [stream.ttft for stream in streams]),
            "tokens_per_second": sum(stream.num_counted for stream in streams) / seconds,
        }
        if any(stream.cached_share is None for stream in streams):
            self._target.note("the server does not report cached tokens")
            return figures
        num_cached = sum(stream.num_cached_tokens or 0 for stream in streams)
        share = num_cached / sum(stream.num_prompt_tokens or 0 for stream in streams)
        num_reusable, length = reusable(self._units())
        if num_reusable:
            figures["cached_of_possible"] = share * length / num_reusable
        return {**figures, "cached_share": share}

    def _units(self) -> Iterator[Iterator[tuple[Hashable, float]]]:
        """Yield the units of the answered prompts; block ids differ between sessions."""
        for session, request, _ in self._answered:
            yield (((session if request.block_ids else "", unit), size) for unit, size in request.units)
