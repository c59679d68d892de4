"""One answer as server-sent events. The stream owns its ending: whatever happens, the generation is cancelled when it is over."""

import asyncio
import logging
from collections.abc import AsyncIterator

from mlxctl.errors import MlxctlError, SequenceFailed
from mlxctl.inference import Generation
from mlxctl.ir import Finished, StreamEvent
from mlxctl.protocols import Formatter
from mlxctl.server.deadline import Deadline

_log = logging.getLogger(__name__)


async def stream_answer(
    generation: Generation, formatter: Formatter, *, ping_interval_seconds: float, deadline: Deadline
) -> AsyncIterator[bytes]:
    """Yield the chunks of `resp.stream`. Events that are ready together are one chunk; silence is broken by a ping.

    An error after the first byte cannot change the status any more, so the formatter says it in the stream and ends it properly.
    """
    try:
        yield formatter.begin(generation.num_prompt_tokens)
        async for events in _events_or_silence(generation, ping_interval_seconds, deadline):
            chunk = _encode(formatter, events) if events else formatter.ping()
            if chunk:
                yield chunk
    except MlxctlError as error:
        _log.warning("a stream ended early: %s", error)
        yield formatter.on_error(error)
    except Exception:
        # The head of the response is out, so nobody further up could tell the client.
        _log.exception("a stream failed unexpectedly")
        yield formatter.on_error(SequenceFailed("the server failed unexpectedly; its log says why"))
    finally:
        generation.cancel()


def _encode(formatter: Formatter, events: list[StreamEvent]) -> bytes:
    chunk = b"".join(map(formatter.on_event, events))
    return chunk + formatter.finish() if isinstance(events[-1], Finished) else chunk


async def _events_or_silence(
    generation: Generation, ping_interval_seconds: float, deadline: Deadline
) -> AsyncIterator[list[StreamEvent]]:
    """Yield the generation's lists, and an empty one whenever nothing came for a ping interval."""
    lists = aiter(generation)
    while True:
        try:
            async with asyncio.timeout_at(deadline.next_wake(ping_interval_seconds)):
                events = await anext(lists)
        except TimeoutError:
            deadline.check()
            events = []
        except StopAsyncIteration:
            return
        yield events
