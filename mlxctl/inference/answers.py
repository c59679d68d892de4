"""All answers to one request: one sequence per prompt and choice.

Event-loop thread only.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mlxctl.formats.adapters import PreparedInput
from mlxctl.inference.interface import OpenAnswer
from mlxctl.ir import Finished, SamplingParams, StreamEvent, TextResult, Usage

AnswerEvents = tuple[int, list[StreamEvent]]
"""Number of an answer, and its next events."""


# Answers that their reader does not take are held back by the engine's client, so this queue is short.
_MAX_QUEUED = 16


class Answers:
    """Async iterator over the events of several answers.

    Lists of events are empty after a `nudge`. Answers are numbered prompt by prompt, each prompt's choices in
    a row. The iteration ends when all of them have finished; the first that fails ends it with its
    EngineError. `sampling` is that of the first. The holder must `cancel` it at the end, however the answers
    ended.
    """

    def __init__(
        self, generations: Sequence[OpenAnswer], *, num_prompt_tokens: int, sampling: SamplingParams
    ) -> None:
        self.generations = tuple(generations)
        self.num_prompt_tokens = num_prompt_tokens
        self.sampling = sampling
        self._num_open = len(generations)
        self._events: asyncio.Queue[AnswerEvents | Exception] = asyncio.Queue(_MAX_QUEUED)
        self._readers: list[asyncio.Task[None]] = []

    @property
    def prompt_usage(self) -> Usage:
        """Token counts of all prompts.

        Cached tokens of a single one are known from the first events on.
        """
        known = self.generations[0].prompt_usage
        return known if len(self.generations) == 1 else Usage(num_prompt_tokens=self.num_prompt_tokens)

    @property
    def is_over(self) -> bool:
        """Whether every answer has finished."""
        return self._num_open == 0

    def __aiter__(self) -> "Answers":
        return self

    async def __anext__(self) -> AnswerEvents:
        if self.is_over:
            raise StopAsyncIteration
        number, events = await self._next()
        if events and isinstance(events[-1], Finished):
            self._num_open -= 1
        return number, events

    async def results(self) -> tuple[TextResult, ...]:
        """Wait for the end and return the answers in order.

        Raises as soon as one fails.
        """
        return tuple(await asyncio.gather(*(generation.result() for generation in self.generations)))

    def nudge(self) -> None:
        """Wake the waiting iteration.

        It gets an empty list if there is no event.
        """
        if not self._readers:
            self.generations[0].nudge()
        elif self._events.empty():
            self._events.put_nowait((0, []))

    def cancel(self) -> None:
        """Stop the sequences that still run. Idempotent."""
        for generation in self.generations:
            generation.cancel()
        for reader in self._readers:
            reader.cancel()

    async def _next(self) -> AnswerEvents:
        # PERF: a single answer, the usual case, is awaited directly; several need a task each, and a queue.
        if len(self.generations) == 1:
            return 0, await anext(self.generations[0])
        if not self._readers:
            self._readers = [
                asyncio.create_task(self._read(number)) for number in range(len(self.generations))
            ]
        events = await self._events.get()
        if isinstance(events, Exception):
            raise events
        return events

    async def _read(self, number: int) -> None:
        try:
            async for events in self.generations[number]:
                await self._events.put((number, events))
        except Exception as error:
            # Also an unexpected one: otherwise the holder would wait for ever.
            await self._events.put(error)


def choice_of(prepared: PreparedInput, index: int) -> PreparedInput:
    """Return the input of choice `index`.

    Each choice but the first has a derived seed.
    """
    if index == 0:
        return prepared
    digest = hashlib.blake2b(f"{prepared.sampling.seed}/{index}".encode(), digest_size=8).digest()
    return replace(prepared, sampling=replace(prepared.sampling, seed=int.from_bytes(digest, "big") >> 1))
