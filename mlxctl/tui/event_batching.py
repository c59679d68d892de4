"""Batches of stream events at the rate that a screen can draw."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

from mlxctl.ir import TextDelta, ThinkingDelta, ToolArgumentsDelta
from mlxctl.tui.turn_updates import Update

Item = TypeVar("Item")


async def batch_events(
    batches: AsyncGenerator[list[Item], None], *, seconds: float
) -> AsyncGenerator[list[Item], None]:
    """Yield batches: the first at once, further ones every `seconds` at most.

    A slow consumer gets larger batches; no item is lost or reordered. An error of the source is raised after
    its last item. Closing the generator closes the source.
    """
    pending: list[Item] = []
    has_items = asyncio.Event()

    async def collect() -> None:
        async with aclosing(batches):
            async for batch in batches:
                pending.extend(batch)
                has_items.set()

    source = asyncio.create_task(collect(), name="coalesce")
    source.add_done_callback(lambda _: has_items.set())
    try:
        while True:
            await has_items.wait()
            is_last = source.done()
            has_items.clear()
            if pending:
                batch = pending.copy()
                pending.clear()
                yield batch
            if is_last:
                source.result()
                return
            await asyncio.wait({source}, timeout=seconds)
            if source.done():
                has_items.set()
    finally:
        source.cancel()
        await asyncio.gather(source, return_exceptions=True)


def merge_deltas(updates: Sequence[Update]) -> list[Update]:
    """Return the updates with adjacent deltas of one kind merged."""
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
