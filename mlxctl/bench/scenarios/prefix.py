"""Prefix reuse: one long text cold, warm, and after a restart."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget

_QUESTION_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """One long text per round, with different questions at its end.

    Only a server that the run started is restarted.
    """

    prompt_tokens: int = 2048
    answer_tokens: int = 8
    restarts: bool = True

    name: ClassVar[str] = "prefix"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="ttft_cold", unit="s", better="lower", meaning="new text"),
        Figure(name="ttft_warm", unit="s", better="lower", meaning="the same text, another question"),
        Figure(
            name="ttft_restart", unit="s", better="lower", meaning="the same after the server was restarted"
        ),
        Figure(name="speedup_warm", unit="times", better="higher", meaning="cold over warm"),
        Figure(name="speedup_restart", unit="times", better="higher", meaning="cold over restarted"),
        Figure(
            name="cached_share_warm",
            unit="share",
            better="higher",
            meaning="of the prompt, as reported by the server",
        ),
        Figure(
            name="cached_share_restart",
            unit="share",
            better="higher",
            meaning="of the prompt, as reported by the server",
        ),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token",
            bars=(("cold", "ttft_cold"), ("warm", "ttft_warm"), ("restarted", "ttft_restart")),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Ask about a text cold, warm, and after a restart if possible."""
        text = prompts.text(
            key, target.fit(self.prompt_tokens, max_tokens=self.answer_tokens + _QUESTION_TOKENS)
        )
        cold = await self._ask(target, prompts, text, "cold")
        warm = await self._ask(target, prompts, text, "warm")
        sample = {"ttft_cold": cold.ttft} | _compared("warm", warm, cold)
        if self.restarts and await self._restart(target, prompts, key):
            sample |= _compared("restart", await self._ask(target, prompts, text, "restart"), cold)
        return sample

    async def _ask(self, target: BenchTarget, prompts: Prompts, text: str, moment: str) -> Stream:
        question = prompts.prose(f"question {moment}", _QUESTION_TOKENS)
        return await target.ask(user(f"{text}\n\n{question}"), max_tokens=self.answer_tokens)

    async def _restart(self, target: BenchTarget, prompts: Prompts, key: str) -> bool:
        if target.restarter is None:
            target.note("not restarted: only a server that the benchmark started can be")
            return False
        target.endpoint = ChatEndpoint.of(await target.restarter.restart())
        # The first request after a start has extra costs that do not depend on the text.
        await target.ask(
            user(prompts.text(f"{key} after restart", _QUESTION_TOKENS)), max_tokens=self.answer_tokens
        )
        return True


def _compared(moment: str, stream: Stream, cold: Stream) -> Sample:
    sample = {f"ttft_{moment}": stream.ttft, f"speedup_{moment}": cold.ttft / stream.ttft}
    return sample if stream.cached_share is None else sample | {f"cached_share_{moment}": stream.cached_share}
