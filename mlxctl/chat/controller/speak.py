"""/speak: an answer is read aloud."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from mlxctl.chat.chat_backend import ChatBackend
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import continue_queue
from mlxctl.chat.controller.effects import Effects, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.error_text import sentence
from mlxctl.chat.speech_text import readable, split_text
from mlxctl.ir import SpeechChunk, SpeechRequest
from mlxctl.ir.errors import MlxctlError


def speak(chat: ChatState, number: str) -> Effects:
    """Play an answer, by default the last, with the server's speech model."""
    entry = chat.conversation.find(number) if number else chat.conversation.last_answer
    text = "" if entry is None else readable(entry.text)
    if not text:
        raise ValueError("There is no answer to read.")
    chat.check_idle()
    model = chat.backend.speech_model() if chat.model is not None else None
    if model is None:
        raise ValueError("/speak needs a server with a speech model, too: mlxctl serve MODEL SPEECH_MODEL")
    # Imported here, since audio formats would delay the first frame of the chat.
    from mlxctl.chat.audio_player import find_player, play

    player = find_player()
    chat.is_busy = True
    try:
        end: MlxctlError | Stopped | None = yield do.CallLong(
            partial(play, player, _speak_all(chat.backend, model, text)), "speaking", can_stop=True
        )
        if isinstance(end, MlxctlError):
            yield do.Write(sentence(end), "error")
    finally:
        chat.is_busy = False
    yield from continue_queue(chat, is_complete=end is None)


async def _speak_all(backend: ChatBackend, model: str, text: str) -> AsyncGenerator[SpeechChunk, None]:
    for part in split_text(text):
        async with aclosing(backend.speak(SpeechRequest(model=model, text=part))) as chunks:
            async for chunk in chunks:
                yield chunk
