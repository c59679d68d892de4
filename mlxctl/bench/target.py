"""A measured server: its identity, its limits, and requests to it.

Event-loop thread only.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlxctl.bench.client import Stream, run_stream
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.prompts import Prompts, user
from mlxctl.inference.remote import RemoteInference, RemoteModel
from mlxctl.ir import Purpose
from mlxctl.ir.errors import CapacityError, InvalidRequest, ServerUnreachable, SettingsError

_CALIBRATION_WORDS = 200
# Margin for the template, and for words with more tokens than those of the calibration.
_CONTEXT_MARGIN = 0.9
# Shorter answers, relative to max_tokens, are noted.
_SHORT_SHARE = 0.9


class Restarter(Protocol):
    """Restarts the server of a target."""

    async def restart(self) -> str:
        """Stop the server gracefully and return the new URL when ready."""


@dataclass(slots=True)
class BenchTarget:
    """One measured server; `label` is A or B.

    `is_last` marks the target that ends a round. `listed` is the model in the server's list, None if it lists
    none. `purpose` is what it is for, and `chat_model` one that chats beside it. `num_tokens` counts all
    answers. `notes` are shown with the result. `fields` are added to every request. `accepts_tools` becomes
    false when the server rejected tools.
    """

    label: str
    name: str
    endpoint: ChatEndpoint
    model: str
    listed: RemoteModel | None = None
    purpose: Purpose = "text"
    chat_model: str | None = None
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
        """Request a greedy answer of `max_tokens` and wait for its end.

        Raises what `run_stream` raises.
        """
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
            self.note("some answers ended before max_tokens")
        if stream.num_tokens is None:
            self.note("the server reports no usage: tokens are counted by stream events")
        return stream

    async def calibrate(self, prompts: Prompts) -> float:
        """Send one request and return its tokens per word.

        It also shows whether the server can be measured at all. Only a model that writes is asked.
        """
        if self.purpose != "text":
            return prompts.tokens_per_word
        words = " ".join(prompts.prose("calibration", _CALIBRATION_WORDS).split()[:_CALIBRATION_WORDS])
        try:
            stream = await self.ask(user(words), max_tokens=2)
        except InvalidRequest:
            # Most servers know or ignore `ignore_eos`; a strict one may reject it.
            if not self.fields:
                raise
            self.fields = {}
            return await self.calibrate(prompts)
        if not stream.num_prompt_tokens:
            return prompts.tokens_per_word
        return stream.num_prompt_tokens / len(words.split())

    @property
    def context_length(self) -> int | None:
        """The model's context in tokens; None if unknown."""
        return self.listed.context_length if self.listed else None

    def room(self, *, max_tokens: int) -> int | None:
        """Return the longest prompt beside an answer; None if unknown."""
        if self.context_length is None:
            return None
        return int(self.context_length * _CONTEXT_MARGIN) - max_tokens

    def fit(self, num_prompt_tokens: int, *, max_tokens: int) -> int:
        """Return the prompt length that fits into the context; notes a reduction."""
        room = self.room(max_tokens=max_tokens)
        if room is None:
            return num_prompt_tokens
        if room <= 0:
            raise SettingsError(
                f"answers of {max_tokens} tokens do not fit into the context of {self.context_length} tokens"
            )
        if num_prompt_tokens > room:
            self.note(
                f"prompts of {num_prompt_tokens} tokens were shortened to {room}, for a context of"
                f" {self.context_length}"
            )
        return min(num_prompt_tokens, room)

    def note(self, text: str) -> None:
        """Add a note to the result, once."""
        self.notes[f"{self.label}: {text}"] = None


async def open_target(
    label: str,
    url: str,
    *,
    name: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    purpose: Purpose = "text",
) -> BenchTarget:
    """Query the server's models and return it as a target.

    The default model is the first one for `purpose`. Raises SettingsError, ServerUnreachable, UnknownModel,
    CapacityError.
    """
    endpoint = ChatEndpoint.of(url, api_key=api_key)
    remote = RemoteInference(endpoint.base_url, api_key=api_key)
    try:
        await remote.wait_ready()
        found = remote.find_model(model) if purpose == "text" else _audio_model(remote, model, purpose)
    except CapacityError as error:
        # Some servers serve models that they do not list. A named one is tried with the first request.
        if model is None and not isinstance(error, ServerUnreachable):
            raise CapacityError(f"{error}; name one that it serves with --against-model") from None
        if model is None:
            raise
        return BenchTarget(label, name or endpoint.base_url, endpoint, model, purpose=purpose)
    finally:
        await remote.close()
    target = BenchTarget(label, name or endpoint.base_url, endpoint, found.name, found, purpose=purpose)
    if purpose == "speech":
        chats = (each.name for each in remote.models() if each.kind is not None and each.can_chat)
        target.chat_model = next(chats, None)
    return target


def _audio_model(remote: RemoteInference, name: str | None, purpose: Purpose) -> RemoteModel:
    """Return the named model, else the first for `purpose`. Raises SettingsError."""
    if name is not None:
        return remote.find_model(name)
    for model in remote.models():
        if model.can_speak if purpose == "speech" else model.can_transcribe:
            return model
    raise SettingsError(f"the server at {remote.url} lists no {purpose} model; name it with --model")
