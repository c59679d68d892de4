"""Bundle what comes fast into what a screen can show: at most one batch per interval, nothing lost, nothing
reordered.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

from mlxctl.ir import TextDelta, ThinkingDelta, ToolArgumentsDelta
from mlxctl.tui.exchange import Update

Item = TypeVar("Item")


async def coalesce(
    batches: AsyncGenerator[list[Item], None], *, seconds: float
) -> AsyncGenerator[list[Item], None]:
    """Yield the items of `batches`; the first at once, further ones not sooner than `seconds` after the last.

    A consumer that is slow gets larger batches. The error of the source comes after everything that it gave.
    Closing closes it.
    """
    pending: list[Item] = []
    news = asyncio.Event()

    async def pump() -> None:
        async with aclosing(batches):
            async for batch in batches:
                pending.extend(batch)
                news.set()

    source = asyncio.create_task(pump(), name="coalesce")
    source.add_done_callback(lambda _: news.set())
    try:
        while True:
            await news.wait()
            is_last = source.done()
            news.clear()
            if pending:
                batch = pending.copy()
                pending.clear()
                yield batch
            if is_last:
                source.result()
                return
            await asyncio.wait({source}, timeout=seconds)
            if source.done():
                news.set()
    finally:
        source.cancel()
        await asyncio.gather(source, return_exceptions=True)


def merge_deltas(updates: Sequence[Update]) -> list[Update]:
    """Return the same updates with neighboring deltas of one kind as one."""
    merged: list[Update] = []
    for update in updates:
        last = merged[-1] if merged else None
        match last, update:
            case TextDelta(), TextDelta():
                merged[-1] = TextDelta(text=last.text + update.text)
            case ThinkingDelta(), ThinkingDelta():
                merged[-1] = ThinkingDelta(text=last.text + update.text)
            case ToolArgumentsDelta(), ToolArgumentsDelta() if last.index == update.index:
                merged[-1] = ToolArgumentsDelta(index=last.index, json=last.json + update.json)
            case _:
                merged.append(update)
    return merged
