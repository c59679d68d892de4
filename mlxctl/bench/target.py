"""A server that is measured: who it is, what it can take, and one way to ask it. Event-loop thread only."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlxctl.bench.client import Stream, run_stream
from mlxctl.bench.endpoint import Endpoint
from mlxctl.bench.prompts import Prompts, user
from mlxctl.errors import CapacityError, InvalidRequest, SettingsError
from mlxctl.inference.remote import RemoteInference

_CALIBRATION_WORDS = 200
# Room for the template around a prompt, and for words that are longer in tokens than those of the
# calibration.
_CONTEXT_MARGIN = 0.9
# An answer below this share of what was asked for is worth a note.
_SHORT_SHARE = 0.9


class Restarter(Protocol):
    """Starts the server again that a target stands for."""

    async def restart(self) -> str:
        """Stop it in an orderly way, start it, and return the URL of the new one when it is ready."""


@dataclass(slots=True)
class BenchTarget:
    """`label` is A or B; the last one ends a round.

    `context_length` is in tokens, None where the server did not say.

    `num_tokens` counts all answers. `notes` are what a reader of the result has to know; `fields` go into
    every request. `takes_tools` becomes false when the server has refused some.
    """

    label: str
    name: str
    endpoint: Endpoint
    model: str
    context_length: int | None = None
    is_last: bool = True
    restarter: Restarter | None = None
    accepts_tools: bool = True
    num_tokens: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=lambda: {"ignore_eos": True})

    async def ask(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        max_tokens: int,
        on_first: asyncio.Event | None = None,
        into: Stream | None = None,
        **fields: Any,
    ) -> Stream:
        """Ask for `max_tokens` of a greedy answer and wait for its end; raises what `run_stream` does."""
        body = {
            "model": self.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.fields,
            **fields,
        }
        stream = await run_stream(self.endpoint, body, on_first=on_first, into=into)
        self.num_tokens += stream.num_counted
        if stream.num_counted < _SHORT_SHARE * max_tokens:
            self.note("some answers ended by themselves before the length that was asked for")
        if stream.num_tokens is None:
            self.note("the server tells no usage: tokens are counted by pieces of the answer")
        return stream

    async def calibrate(self, prompts: Prompts) -> float:
        """Ask once and return the tokens that a word takes, also the first sign that the server can be
        measured at all.
        """
        words = " ".join(prompts.prose("calibration", _CALIBRATION_WORDS).split()[:_CALIBRATION_WORDS])
        try:
            stream = await self.ask(user(words), max_tokens=2)
        except InvalidRequest:
            # `ignore_eos` is known to many servers and ignored by most others; a strict one may refuse it.
            if not self.fields:
                raise
            self.fields = {}
            return await self.calibrate(prompts)
        if not stream.num_prompt_tokens:
            return prompts.tokens_per_word
        return stream.num_prompt_tokens / len(words.split())

    def fit(self, num_prompt_tokens: int, *, max_tokens: int) -> int:
        """Return how long a prompt may be so that it and its answer fit into the context; notes when that is
        shorter.
        """
        if self.context_length is None:
            return num_prompt_tokens
        room = int(self.context_length * _CONTEXT_MARGIN) - max_tokens
        if room <= 0:
            raise SettingsError(
                f"answers of {max_tokens} tokens do not fit into the context of {self.context_length} tokens"
            )
        if num_prompt_tokens > room:
            self.note(
                f"prompts of {num_prompt_tokens} tokens were shortened to {room}: the context holds {self.context_length}"
            )
        return min(num_prompt_tokens, room)

    def note(self, text: str) -> None:
        """Remember what a reader of the result has to know; said once."""
        self.notes[f"{self.label}: {text}"] = None


async def open_target(
    label: str, url: str, *, name: str | None = None, model: str | None = None, api_key: str | None = None
) -> BenchTarget:
    """Ask a server what it serves, return it as a target.

    Raises SettingsError, ServerUnreachable, UnknownModel, CapacityError.
    """
    endpoint = Endpoint.of(url, api_key=api_key)
    remote = RemoteInference(endpoint.base_url, api_key=api_key)
    try:
        await remote.wait_ready()
        found = remote.find_model(model)
    except CapacityError:
        # Some servers answer for models that they cannot list. Who names one is believed, and the first
        # question shows.
        if model is None:
            raise
        return BenchTarget(label, name or endpoint.base_url, endpoint, model)
    finally:
        await remote.close()
    return BenchTarget(label, name or endpoint.base_url, endpoint, found.name, found.context_length)
