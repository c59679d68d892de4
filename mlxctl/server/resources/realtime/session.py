"""One session: its configuration, audio, items and responses. Event-loop thread only."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from mlxctl.formats.adapters.media.telephone_audio import TelephoneDecoder
from mlxctl.inference import InferenceService
from mlxctl.inference.call_context import CallContext
from mlxctl.ir.errors import InvalidRequest, MlxctlError, QueueFull
from mlxctl.protocols.openai.realtime import client_events as client
from mlxctl.protocols.openai.realtime.conversation import Conversation
from mlxctl.protocols.openai.realtime.events import error_event, event, new_id
from mlxctl.protocols.openai.realtime.items import (
    Content,
    Item,
    ItemReference,
    MessageItem,
    check_content,
    shown,
)
from mlxctl.protocols.openai.realtime.session import InputTranscription, Session, updated
from mlxctl.server.http.web_socket import MAX_SECONDS, WebSocket
from mlxctl.server.resources.realtime.audio_models import AudioModels
from mlxctl.server.resources.realtime.idle_timer import IdleTimer
from mlxctl.server.resources.realtime.input_audio import BYTES_A_SECOND, InputAudio, Turn, decoded
from mlxctl.server.resources.realtime.response import Response, ResponsePlan
from mlxctl.server.resources.realtime.spoken_message import SpokenMessage
from mlxctl.server.resources.realtime.transcripts import Transcripts

# Reading base64 takes no time that counts; larger events are parsed in a preparation process.
_INLINE_BYTES = 256 * 1024
# Responses at once, of which one is in the conversation.
_MAX_RESPONSES = 4
_INSTRUCTIONS = (
    "You talk with the user by voice. "
    "Answer in short plain sentences, without lists, tables, Markdown or emoji."
)


@dataclass(slots=True)
class _Answering:
    """A response and the task that runs it."""

    response: Response
    task: asyncio.Task[None]


class RealtimeSession:
    """Answers the events of one client.

    `max_bytes` limits the texts of the conversation.
    """

    def __init__(
        self,
        socket: WebSocket,
        inference: InferenceService,
        call: CallContext,
        *,
        model: str,
        is_transcription: bool,
        max_bytes: int,
    ) -> None:
        self._socket = socket
        self._preparation = inference.preparation
        self._models = AudioModels(inference.models, call)
        self._session = Session(
            id=new_id("sess"),
            type="transcription" if is_transcription else "realtime",
            model="" if is_transcription else model,
            expires_at=int(time.time() + MAX_SECONDS),
            instructions=_INSTRUCTIONS,
        )
        if is_transcription:
            asked = InputTranscription(model=model or None)
            self._session.audio = replace(
                self._session.audio, input=replace(self._session.audio.input, transcription=asked)
            )
        self._conversation = Conversation()
        self._conversation_id = new_id("conv")
        self._room = max_bytes
        self._audio = InputAudio(socket.account)
        self._audio.detect(self._session.audio.input.turn_detection)
        self._transcripts = Transcripts(socket, self._models)
        self._responses: dict[str, _Answering] = {}
        self._spoken: dict[str, SpokenMessage] = {}
        # A message, or the end of a user's silence, is handled after the other.
        self._acting = asyncio.Lock()
        self._idle = IdleTimer(self._answer_silence)
        self._answered_ms = 0

    async def run(self) -> None:
        """Serve the client until it leaves."""
        try:
            with suppress(InvalidRequest):  # the client has not named a model yet
                await self._choose_modality()
            await self._send("session.created", session=self._session.shown())
            while (message := await self._socket.next()) is not None:
                async with self._acting:
                    await self._handle(message)
                self._socket.done(message)
        finally:
            self._idle.close()
            tasks = [
                *self._idle.tasks,
                *self._transcripts.tasks,
                *(each.task for each in self._responses.values()),
            ]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _handle(self, message: bytes) -> None:
        event_id = None
        try:
            given: client.ClientEvent = (
                client.parse_event(message)
                if len(message) < _INLINE_BYTES
                else await self._preparation.parse(message, client.parse_event)
            )
            event_id = given.event_id
            await self._act(given, len(message))
        except MlxctlError as error:
            await self._socket.send_text(error_event(error, event_id or client.event_id_of(message)))

    async def _act(self, given: client.ClientEvent, num_bytes: int) -> None:
        match given:
            case client.AudioAppend():
                for turn in await self._audio.append(given.audio):
                    await self._take_turn(turn)
            case client.AudioCommit():
                await self._commit(self._audio.commit())
            case client.AudioClear():
                self._audio.clear()
                await self._send("input_audio_buffer.cleared")
            case client.ResponseCreate():
                await self._respond(given.response or client.ResponseParameters())
            case client.ResponseCancel():
                await self._cancel(given.response_id)
            case client.SessionUpdate():
                await self._update(given)
            case client.ItemCreate():
                await self._create_item(given, num_bytes)
            case client.ItemRetrieve():
                item = self._conversation.find(given.item_id, "retrieve")
                await self._send("conversation.item.retrieved", item=shown(item))
            case client.ItemTruncate():
                await self._truncate(given)
            case client.ItemDelete():
                self._conversation.delete(given.item_id)
                await self._send("conversation.item.deleted", item_id=given.item_id)
            case _:
                assert_never(given)

    async def _update(self, given: client.SessionUpdate) -> None:
        before, asked = self._session.audio.input.turn_detection, given.session
        law = self._session.audio.input.format.law
        session = updated(self._session, asked, path="session")
        if session.type == "realtime" and not session.model:
            message = "session.type: name a chat model in the URL, without intent=transcription"
            raise InvalidRequest(message, param="session.type", code="invalid_value")
        await self._models.hearing(session)
        await self._models.speaking(session)
        self._session = session
        if session.audio.input.format.law != law:
            self._audio.read(session.audio.input.format.law)
        await self._choose_modality()
        if session.audio.input.turn_detection != before:
            self._idle.stop()
            self._audio.detect(session.audio.input.turn_detection)
        await self._send("session.updated", session=self._session.shown())

    async def _choose_modality(self) -> None:
        """Answer with text where the server cannot speak."""
        can_speak = await self._models.speaking(self._session) is not None
        speaks = can_speak and "audio" in self._session.output_modalities
        self._session = replace(self._session, output_modalities=["audio" if speaks else "text"])

    async def _take_turn(self, turn: Turn) -> None:
        """Send the events of a turn that has begun or ended."""
        detection = self._session.audio.input.turn_detection
        assert detection is not None, "only detected turns come here"
        if turn.audio is None:
            self._idle.stop()
            where = {"audio_start_ms": turn.milliseconds, "item_id": turn.item_id}
            await self._send("input_audio_buffer.speech_started", **where)
            if detection.interrupt_response and (active := self._in_conversation()) is not None:
                await self._end(active, "turn_detected")
            return
        where = {"audio_end_ms": turn.milliseconds, "item_id": turn.item_id}
        await self._send("input_audio_buffer.speech_stopped", **where)
        await self._commit(turn)
        if detection.create_response and self._session.type == "realtime":
            await self._respond(client.ResponseParameters(), is_optional=True)

    async def _commit(self, turn: Turn) -> None:
        """Make an item of a turn, and transcribe it."""
        audio = turn.audio or b""
        item = MessageItem(id=turn.item_id, role="user", content=[Content(type="input_audio", audio=audio)])
        before = self._add(item)
        committed = {"previous_item_id": before, "item_id": turn.item_id}
        await self._send("input_audio_buffer.committed", **committed)
        await self._announce(item, before)
        await self._send("conversation.item.done", previous_item_id=before, item=shown(item))

    async def _create_item(self, given: client.ItemCreate, num_bytes: int) -> None:
        item = given.item
        item.id = item.id or new_id("item")
        self._take_room(num_bytes)
        if isinstance(item, MessageItem):
            check_content(item, "item.content")
            await self._decode(item)
            self._socket.account.add(sum(len(part.audio or b"") for part in item.content))
        before = self._add(item, after=given.previous_item_id)
        await self._announce(item, before)
        await self._send("conversation.item.done", previous_item_id=before, item=shown(item))

    async def _decode(self, item: MessageItem) -> None:
        """Make samples of the audio of a message. Raises InvalidRequest."""
        if (law := self._session.audio.input.format.law) is not None:
            for part in item.content:
                if part.audio:
                    decoder = TelephoneDecoder(law)
                    part.audio = await decoded(decoder, part.audio) + decoder.finish()

    def _add(self, item: Item, *, after: str | None = None) -> str | None:
        """Add an item, and begin to transcribe its audio.

        The account has counted it. Returns the id of the item before it. Raises InvalidRequest.
        """
        parts = item.content if isinstance(item, MessageItem) else []
        num_bytes = sum(len(part.audio or b"") for part in parts)
        try:
            if num_bytes:
                self._transcripts.check_room()
            before = self._conversation.add(item, after=after)
        except InvalidRequest:
            self._socket.account.remove(num_bytes)
            raise
        if isinstance(item, MessageItem) and num_bytes:
            self._transcripts.begin(item, self._session)
        return before

    async def _announce(self, item: Item, before: str | None) -> None:
        await self._send("conversation.item.added", previous_item_id=before, item=shown(item))

    async def _respond(self, asked: client.ResponseParameters, *, is_optional: bool = False) -> None:
        in_conversation = asked.conversation != "none"
        if self._session.type == "transcription":
            message = "a transcription session has no responses; open a session of type realtime"
            raise InvalidRequest(message, param="type", code="invalid_value")
        if in_conversation and (active := self._in_conversation()) is not None:
            message = (
                f"the conversation has an active response, {active.response.id!r}; wait for it, or cancel it"
            )
            raise InvalidRequest(message, code="conversation_already_has_active_response")
        if len(self._responses) >= _MAX_RESPONSES:
            message = f"a session may have {_MAX_RESPONSES} responses at once; wait for one"
            raise InvalidRequest(message, code="rate_limit_exceeded")
        self._take_room(0)
        self._idle.stop()
        session = updated(self._session, asked, path="response")
        speaks = "audio" in session.output_modalities
        plan = ResponsePlan(
            session=session,
            speech_model=await self._models.speaking(session) if speaks else None,
            items=self._input_of(asked),
            in_conversation=in_conversation,
            is_optional=is_optional,
            metadata=asked.metadata,
        )
        response = Response(
            plan=plan,
            socket=self._socket,
            conversation_id=self._conversation_id,
            add_item=self._add_output,
            end_item=self._end_output,
            spoken=self._spoken,
        )
        task = asyncio.create_task(response.run(), name="realtime-response")
        self._responses[response.id] = _Answering(response, task)
        task.add_done_callback(lambda _: self._forget(response))

    def _forget(self, response: Response) -> None:
        """Remove a response that has ended, and wait for the user."""
        self._responses.pop(response.id, None)
        detection = self._session.audio.input.turn_detection
        if detection is not None and detection.idle_timeout_ms and response.plan.in_conversation:
            self._answered_ms = self._audio.milliseconds
            self._idle.start(response.audio_seconds + detection.idle_timeout_ms / 1000)

    async def _answer_silence(self) -> None:
        """Let the model speak to a user who says nothing."""
        async with self._acting:
            detection = self._session.audio.input.turn_detection
            if detection is None or not detection.idle_timeout_ms or self._in_conversation() is not None:
                return
            end = self._audio.milliseconds
            if (turn := self._audio.take_silence()) is None:
                return
            start = max(self._answered_ms, end - detection.idle_timeout_ms)
            where = {"audio_start_ms": start, "audio_end_ms": end, "item_id": turn.item_id}
            await self._send("input_audio_buffer.timeout_triggered", **where)
            try:
                await self._commit(turn)
                await self._respond(client.ResponseParameters())
            except MlxctlError as error:
                await self._socket.send_text(error_event(error))

    def _input_of(
        self, asked: client.ResponseParameters
    ) -> Callable[[], Coroutine[Any, Any, Sequence[Item]]]:
        """Return what reads the input of a response.

        It waits for transcripts. Raises InvalidRequest.
        """
        given: list[Item] | None = None
        if asked.input is not None:
            given = [
                self._conversation.find(item.id, "reference", param="response.input")
                if isinstance(item, ItemReference)
                else item
                for item in asked.input
            ]
        waiting = list(self._transcripts.tasks)

        async def read() -> Sequence[Item]:
            if waiting:
                await asyncio.wait(waiting)
            return self._conversation.items if given is None else given

        return read

    async def _add_output(self, item: Item) -> None:
        await self._announce(item, self._conversation.add(item))

    async def _end_output(self, item: Item) -> None:
        num_bytes = len(msgspec.json.encode(item))
        self._room -= num_bytes
        with suppress(QueueFull):  # what follows is refused
            self._socket.account.add(num_bytes)
        await self._send("conversation.item.done", item=shown(item))

    def _in_conversation(self) -> _Answering | None:
        active = self._responses.values()
        return next((each for each in active if each.response.plan.in_conversation), None)

    async def _cancel(self, response_id: str | None) -> None:
        found = self._responses.get(response_id) if response_id else self._in_conversation()
        if found is None:
            message = "there is no active response to cancel"
            raise InvalidRequest(message, param="response_id", code="response_cancel_not_active")
        await self._end(found, "client_cancelled")

    async def _end(self, active: _Answering, reason: str) -> None:
        active.response.cancelled_by = reason
        active.task.cancel()
        await asyncio.wait({active.task})

    async def _truncate(self, given: client.ItemTruncate) -> None:
        spoken = self._spoken.get(given.item_id)
        if spoken is None:
            self._conversation.find(given.item_id, "truncate")
            message = "item_id: only spoken answers can be truncated"
            raise InvalidRequest(message, param="item_id", code="item_truncate_invalid_item")
        if given.content_index:
            raise InvalidRequest("content_index must be 0", param="content_index", code="invalid_value")
        milliseconds = spoken.num_bytes * 1000 // BYTES_A_SECOND
        if given.audio_end_ms > milliseconds + 1:
            message = f"audio_end_ms is {given.audio_end_ms}, but the audio has {milliseconds} ms"
            raise InvalidRequest(message, param="audio_end_ms", code="invalid_value")
        # Answers outside of the conversation are interrupted, too, but not remembered.
        for item in self._conversation.items:
            if item.id == given.item_id and isinstance(item, MessageItem):
                (content,) = item.content
                content.transcript = spoken.heard(content.transcript or "", given.audio_end_ms)
        where = {"content_index": 0, "audio_end_ms": given.audio_end_ms}
        await self._send("conversation.item.truncated", item_id=given.item_id, **where)

    def _take_room(self, num_bytes: int) -> None:
        """Count bytes of items. Raises InvalidRequest, QueueFull."""
        if num_bytes > self._room:
            message = "the items of the session take all memory that they may have; open another session"
            raise InvalidRequest(message, code="conversation_full")
        self._socket.account.add(num_bytes)
        self._room -= num_bytes

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._socket.send_text(event(kind, **fields))
