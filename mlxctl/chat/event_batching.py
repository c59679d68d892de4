"""Batches of stream events at the rate that a screen can draw."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import TypeVar

from mlxctl.chat.turn_updates import Update
from mlxctl.ir import TextDelta, ThinkingDelta, ToolArgumentsDelta

Item = TypeVar("Item")

# Several seconds of the fastest model.
_MAX_PENDING = 10_000


async def batch_events(
    batches: AsyncGenerator[list[Item], None], *, seconds: float
) -> AsyncGenerator[list[Item], None]:
    """Yield batches: the first at once, further ones every `seconds` at most.

    A slow consumer gets larger batches, up to a limit at which the source waits. No item is lost or
    reordered. An error of the source is raised after its last item. Closing the generator closes the source.
    """
    pending: list[Item] = []
    has_items, has_room = asyncio.Event(), asyncio.Event()

    async def collect() -> None:
        async with aclosing(batches):
            async for batch in batches:
                pending.extend(batch)
                has_items.set()
                if len(pending) > _MAX_PENDING:
                    has_room.clear()
                    await has_room.wait()

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
                has_room.set()
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
    for _, run in groupby(updates, _kind):
        first, *others = run
        match first:
            case TextDelta() | ThinkingDelta():
                texts = [first.text, *(each.text for each in others if isinstance(each, type(first)))]
                merged.append(type(first)(text="".join(texts)))
            case ToolArgumentsDelta():
                texts = [first.json, *(each.json for each in others if isinstance(each, type(first)))]
                merged.append(ToolArgumentsDelta(index=first.index, json="".join(texts)))
            case _:
                merged.append(first)
    return merged


def _kind(update: Update) -> object:
    """Return what equals that of the updates to merge with."""
    match update:
        case TextDelta() | ThinkingDelta():
            return type(update)
        case ToolArgumentsDelta():
            return update.index
        case _:
            return object()
