"""What every wire format can do: read a request, write an answer, whole or in pieces.

Knows no HTTP framework and no model.
"""

from typing import Protocol

from mlxctl.errors import MlxctlError
from mlxctl.ir import GenerationRequest, StreamEvent, TextResult, Usage


class Formatter(Protocol):
    """The words of one protocol for one request: make one object per request, `parse` once, then either
    `whole` or the stream.

    A stream is `begin`, `on_event` for each event up to and including Finished, `finish`; or `on_error`
    instead of what is left. Where a request has several answers, `number` says which one an event belongs to,
    and `finish` comes after the last Finished. `ping` fits anywhere. All bytes are complete server-sent
    events (UTF-8), b"" where the protocol has nothing to say. Not thread-safe; owned by whoever answers the
    request.
    """

    @property
    def dropped_tools(self) -> tuple[str, ...]:
        """Types of offered tools that only the protocol's own maker can run; left out of the request, worth a
        line in the log.
        """

    def parse(self, body: bytes) -> GenerationRequest:
        """Read a request body.

        Raises InvalidRequest, whose message and `param` name the field as the caller wrote it.
        """

    @property
    def begins_with_usage(self) -> bool:
        """Whether the stream opens with the prompt's counts, and has to wait until it is known what the cache
        had of it.
        """

    def begin(self, prompt: Usage) -> bytes:
        """Open the stream; of the counts only those of the prompt are there yet."""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Say what just happened in answer `number`."""

    def finish(self) -> bytes:
        """Close the stream after every answer has finished."""

    def on_error(self, error: MlxctlError) -> bytes:
        """Close what is open, say what went wrong, and end the stream; valid at any moment, also before
        `begin`.
        """

    def ping(self) -> bytes:
        """Keep the connection alive; valid at any moment, also before `begin`."""

    def whole(self, *results: TextResult) -> bytes:
        """Write the answers, by their numbers, as one JSON body."""
