"""All answers to one request: one sequence for each prompt and choice, told as they come.

Event-loop thread only.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mlxctl.adapters import PreparedInput
from mlxctl.errors import MlxctlError
from mlxctl.inference.generation import Generation
from mlxctl.ir import Finished, SamplingParams, StreamEvent, TextResult, Usage

Said = tuple[int, list[StreamEvent]]


class Answers:
    """An async iterator over what one answer said: its number, and a list of events, empty after a `nudge`.

    Answers are numbered prompt by prompt, each prompt's choices in a row. The iteration ends when every one
    of them has finished; the first that fails ends it with its EngineError. `sampling` is that of the first.
    Whoever holds it must `cancel` it when done with it, however that came about.
    """

    def __init__(
        self, generations: Sequence[Generation], *, num_prompt_tokens: int, sampling: SamplingParams
    ) -> None:
        self.generations = tuple(generations)
        self.num_prompt_tokens = num_prompt_tokens
        self.sampling = sampling
        self._num_open = len(generations)
        self._news: asyncio.Queue[Said | MlxctlError] = asyncio.Queue()
        self._listeners: list[asyncio.Task[None]] = []

    @property
    def prompt_usage(self) -> Usage:
        """Counts of all prompts together; what the cache had of them is known from the first events on."""
        known = self.generations[0].prompt_usage
        return known if len(self.generations) == 1 else Usage(num_prompt_tokens=self.num_prompt_tokens)

    @property
    def is_over(self) -> bool:
        """Whether every answer was told to its end."""
        return self._num_open == 0

    def __aiter__(self) -> "Answers":
        return self

    async def __anext__(self) -> Said:
        if self.is_over:
            raise StopAsyncIteration
        number, events = await self._next()
        if events and isinstance(events[-1], Finished):
            self._num_open -= 1
        return number, events

    async def results(self) -> tuple[TextResult, ...]:
        """Wait for the end and return the answers by their numbers; the others are not waited for when one
        fails.
        """
        return tuple(await asyncio.gather(*(generation.result() for generation in self.generations)))

    def nudge(self) -> None:
        """Have the one who waits for news look around: it gets an empty list if nothing has come."""
        if self._listeners:
            self._news.put_nowait((0, []))
        else:
            self.generations[0].nudge()

    def cancel(self) -> None:
        """Free what still runs. Idempotent."""
        for generation in self.generations:
            generation.cancel()
        for listener in self._listeners:
            listener.cancel()

    async def _next(self) -> Said:
        # PERF: the usual single answer is asked itself; several need a task each, and a queue.
        if len(self.generations) == 1:
            return 0, await anext(self.generations[0])
        if not self._listeners:
            self._listeners = [
                asyncio.create_task(self._listen(number)) for number in range(len(self.generations))
            ]
        news = await self._news.get()
        if isinstance(news, MlxctlError):
            raise news
        return news

    async def _listen(self, number: int) -> None:
        try:
            async for events in self.generations[number]:
                self._news.put_nowait((number, events))
        except MlxctlError as error:
            self._news.put_nowait(error)


def choice_of(prepared: PreparedInput, index: int) -> PreparedInput:
    """Return the input of a prompt's choice `index`: the same but for a seed of its own, which the first has
    as it was given.
    """
    if index == 0:
        return prepared
    digest = hashlib.blake2b(f"{prepared.sampling.seed}/{index}".encode(), digest_size=8).digest()
    return replace(prepared, sampling=replace(prepared.sampling, seed=int.from_bytes(digest, "big") >> 1))
