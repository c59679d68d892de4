"""Interface of a wire format. Knows no HTTP framework and no model."""

from typing import Protocol

from mlxctl.ir import GenerationRequest, StreamEvent, TextResult, Usage
from mlxctl.ir.errors import MlxctlError


class Formatter(Protocol):
    """One wire format for one request.

    `parse` once, then `whole` or a stream. A stream is `begin`, `on_event` for each event up to and including
    Finished, `finish`; `on_error` replaces the rest. With several choices, `number` is the choice of an
    event, and `finish` follows the last Finished. All bytes are complete server-sent events (UTF-8), b""
    where the protocol has none. Not thread-safe.
    """

    @property
    def dropped_tools(self) -> tuple[str, ...]:
        """Types of offered tools that only their provider can run.

        They are dropped and logged.
        """

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a request body. Raises InvalidRequest with the caller's field as `param`."""

    def set_model(self, name: str) -> None:
        """Set the name of the model in the answer.

        Called after `parse` and before the answer. Without it, the answer has the name in the request.
        """

    @property
    def begins_with_usage(self) -> bool:
        """Whether the stream starts with the prompt's token counts.

        It then waits until they are known.
        """

    def begin(self, prompt: Usage) -> bytes:
        """Return the start of the stream.

        `prompt` has the counts of the prompt only.
        """

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the bytes of an event of choice `number`."""

    def finish(self) -> bytes:
        """Return the end of the stream."""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:
        """Return the end of a failed stream.

        Valid at any moment, also before `begin`.
        """

    def ping(self) -> bytes:
        """Return a keep-alive; valid at any moment, also before `begin`."""

    def whole(self, *results: TextResult) -> bytes:
        """Return all choices as one JSON body."""
