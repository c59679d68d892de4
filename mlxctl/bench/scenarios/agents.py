"""Coding agents: one session, then several agents on one new prefix."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample, percentile
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios.session import TOOLS, AgentSession
from mlxctl.bench.target import BenchTarget
from mlxctl.ir.errors import InvalidRequest

# Tokens of the tools and of the template around messages.
_OVERHEAD_TOKENS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """A session with `num_turns` tool results, then `num_agents` concurrent agents.

    The agents share instructions that the server has not seen.
    """

    num_turns: int = 12
    num_agents: int = 4
    system_tokens: int = 2000
    result_tokens: int = 300
    answer_tokens: int = 48

    name: ClassVar[str] = "agents"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Figures of session and fan-out, and each turn as a detail."""
        turns = (
            Figure(
                name=f"turn_ttft_{turn}",
                unit="s",
                better="lower",
                meaning=f"first token of turn {turn}",
                is_detail=True,
            )
            for turn in range(self.num_turns + 1)
        )
        return (*_FIGURES, *turns)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """One chart: time to first token by turn."""
        turns = tuple((f"turn {turn}", f"turn_ttft_{turn}") for turn in range(self.num_turns + 1))
        return (Chart(title="time to first token, turn by turn", bars=turns),)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Replay a session, then start the agents of another at once."""
        session = self._session(target, prompts, f"{key} session")
        turns = [await self._ask(target, session, turn) for turn in range(self.num_turns + 1)]
        fresh = self._session(target, prompts, f"{key} fan-out")
        at_once = await asyncio.gather(
            *(self._ask(target, fresh, 0, agent=agent) for agent in range(self.num_agents))
        )
        return _session_sample(turns) | _fanout_sample(at_once)

    def _session(self, target: BenchTarget, prompts: Prompts, key: str) -> AgentSession:
        wanted = self.system_tokens + self.num_turns * self.result_tokens
        room = target.fit(wanted + _OVERHEAD_TOKENS, max_tokens=self.answer_tokens) - _OVERHEAD_TOKENS
        share = max(0.01, min(1.0, room / wanted))
        return AgentSession(
            prompts=prompts,
            key=key,
            system_tokens=round(self.system_tokens * share),
            result_tokens=max(1, round(self.result_tokens * share)),
        )

    async def _ask(
        self, target: BenchTarget, session: AgentSession, num_turns: int, *, agent: int = 0
    ) -> Stream:
        while True:
            uses_tools = target.accepts_tools
            messages = session.messages(num_turns, agent=agent, uses_tools=uses_tools)
            fields: dict[str, Any] = {"tools": TOOLS} if uses_tools else {}
            try:
                return await target.ask(messages, max_tokens=self.answer_tokens, **fields)
            except InvalidRequest as error:
                if not uses_tools:
                    raise
                target.accepts_tools = False
                target.note(f"tools were rejected ({error}): the session was replayed as plain text")


_FIGURES = (
    Figure(name="session_seconds", unit="s", better="lower", meaning="the whole session"),
    Figure(name="turn_ttft_first", unit="s", better="lower", meaning="first token of its first, cold turn"),
    Figure(name="turn_ttft_p50", unit="s", better="lower", meaning="first token of later turns, p50"),
    Figure(name="turn_ttft_p95", unit="s", better="lower", meaning="first token of later turns, p95"),
    Figure(
        name="session_cached_share",
        unit="share",
        better="higher",
        meaning="of all prompts, as reported by the server",
    ),
    Figure(
        name="fanout_seconds", unit="s", better="lower", meaning="agents at once on a cold prefix, all done"
    ),
    Figure(name="fanout_ttft_p50", unit="s", better="lower", meaning="their first tokens, p50"),
    Figure(name="fanout_ttft_last", unit="s", better="lower", meaning="first token of the last of them"),
    Figure(
        name="fanout_cached_share",
        unit="share",
        better="higher",
        meaning="of their prompts, as reported by the server",
    ),
)


def _session_sample(turns: Sequence[Stream]) -> Sample:
    later = [stream.ttft for stream in turns[1:]]
    sample = {"session_seconds": sum(stream.seconds for stream in turns), "turn_ttft_first": turns[0].ttft}
    if later:
        sample |= {"turn_ttft_p50": percentile(later, 0.5), "turn_ttft_p95": percentile(later, 0.95)}
    details = {f"turn_ttft_{number}": stream.ttft for number, stream in enumerate(turns)}
    return sample | _cached_share("session", turns) | details


def _fanout_sample(streams: Sequence[Stream]) -> Sample:
    seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
    first = [stream.ttft for stream in streams]
    sample = {
        "fanout_seconds": seconds,
        "fanout_ttft_p50": percentile(first, 0.5),
        "fanout_ttft_last": max(first),
    }
    return sample | _cached_share("fanout", streams)


def _cached_share(name: str, streams: Sequence[Stream]) -> Sample:
    counted = [stream for stream in streams if stream.cached_share is not None]
    if len(counted) < len(streams):
        return {}
    cached = sum(stream.num_cached_tokens or 0 for stream in counted)
    return {f"{name}_cached_share": cached / sum(stream.num_prompt_tokens or 0 for stream in counted)}
