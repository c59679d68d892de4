"""Background streams during a measurement. Event-loop thread only."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mlxctl.bench.client import Stream
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget


class LongPrompts:
    """Long prompts in prefill, sent at once."""

    def __init__(self, target: BenchTarget, texts: Sequence[str]) -> None:
        self._firsts = [asyncio.Event() for _ in texts]
        self._tasks = [
            asyncio.create_task(target.ask(user(text), max_tokens=4, on_first=first))
            for text, first in zip(texts, self._firsts, strict=True)
        ]

    @property
    def are_prefilled(self) -> bool:
        """Whether every answer has begun or its request has ended."""
        return all(
            first.is_set() or task.done() for first, task in zip(self._firsts, self._tasks, strict=True)
        )

    async def wait_prefilled(self, *, within_seconds: float) -> None:
        """Wait until all are prefilled or failed, within the timeout."""
        waits = map(_wait_first_token, self._firsts, self._tasks)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await asyncio.gather(*waits)

    async def stop(self) -> None:
        """Cancel them; raises the server's first error."""
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


class DecodingStream:
    """A stream that decodes until it is stopped, with repeated requests."""

    def __init__(self, target: BenchTarget, prompts: Prompts, key: str, *, answer_tokens: int) -> None:
        self._streams: list[Stream] = []
        self._first = asyncio.Event()
        self._task = asyncio.create_task(self._ask_on(target, prompts, key, answer_tokens))

    async def wait_started(self) -> None:
        """Wait for its first token; raises the server's error."""
        await _wait_first_token(self._first, self._task)
        if self._task.done():
            await self._task

    def gaps_since(self, moment: float) -> list[float]:
        """Return gaps between tokens that ended after `moment`, and the open gap."""
        gaps = [
            gap
            for stream in self._streams
            for gap, end in zip(stream.gaps, stream.arrivals[1:], strict=True)
            if end > moment
        ]
        last = self._streams[-1]
        is_open = bool(last.events) and last.num_tokens is None
        return [*gaps, time.perf_counter() - max(last.events[-1], moment)] if is_open else gaps

    async def stop(self) -> None:
        """Cancel it; raises the server's error."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _ask_on(self, target: BenchTarget, prompts: Prompts, key: str, answer_tokens: int) -> None:
        number = 0
        while True:
            self._streams.append(Stream())
            text = prompts.text(f"{key} {number}", 24)
            await target.ask(
                user(text), max_tokens=answer_tokens, on_first=self._first, into=self._streams[-1]
            )
            number += 1


async def _wait_first_token(first: asyncio.Event, task: "asyncio.Task[Any]") -> None:
    """Wait for the first token or the task's end."""
    waiting = asyncio.create_task(first.wait())
    try:
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
