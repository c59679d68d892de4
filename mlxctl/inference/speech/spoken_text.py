"""The speech of one text. Event-loop thread only.

Sentences are spoken one after the other: the engine begins the next when the caller has taken the last, so
that a slow caller holds one sentence in memory.
"""

import asyncio
import secrets
import unicodedata
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial

import msgspec

from mlxctl.engine import Speak
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.request_entry import RequestEntry, TokenContent
from mlxctl.inference.session import ModelSession
from mlxctl.inference.speech.sentences import cut_sentences
from mlxctl.ir import SpeechChunk, SpeechRecipe, SpeechRequest
from mlxctl.ir.errors import InvalidRequest, UnknownVoice
from mlxctl.ir.speech import FLOAT_BYTES

# A policy: about half an hour of speech.
MAX_TEXT_CHARS = 32_768
# A model without voices has another one for each piece: as few pieces as it can speak.
_WHOLE_TEXT_CHARS = 1_000
_SEED_BITS = 32
_LANGUAGES = {
    "ar": "arabic", "de": "german", "en": "english", "es": "spanish", "fr": "french", "hi": "hindi",
    "it": "italian", "ja": "japanese", "ko": "korean", "nl": "dutch", "pt": "portuguese", "ru": "russian",
    "zh": "chinese",
}  # fmt: skip


def check_request(request: SpeechRequest, recipe: SpeechRecipe) -> SpeechRequest:
    """Return the request in the model's own names. Raises InvalidRequest, UnknownVoice."""
    text = request.text.strip()
    if not text:
        raise InvalidRequest("there is no text to speak", param="input")
    if len(text) > MAX_TEXT_CHARS:
        message = f"the text has {len(text)} characters; send at most {MAX_TEXT_CHARS} in one request"
        raise InvalidRequest(message, param="input")
    if recipe.latin_only and not any(_is_latin(char) for char in text):
        message = f"model {request.model!r} reads Latin letters and digits, and the text has none"
        raise InvalidRequest(message, param="input")
    if request.speed != 1 and not recipe.takes_speed:
        raise InvalidRequest(f"model {request.model!r} has one speed; leave speed out", param="speed")
    if request.instructions and not recipe.follows_instructions:
        message = f"model {request.model!r} follows no instructions; leave them out"
        raise InvalidRequest(message, param="instructions")
    if recipe.requires == "instructions" and not request.instructions:
        message = f"model {request.model!r} has no voices; describe the voice in instructions"
        raise InvalidRequest(message, param="instructions")
    _check_reference(request, recipe)
    return msgspec.structs.replace(
        request,
        text=text,
        voice=_voice(request, recipe),
        language=_language(request, recipe),
        instructions=request.instructions or None,
        seed=secrets.randbits(_SEED_BITS) if request.seed is None else request.seed,
    )


def _is_latin(char: str) -> bool:
    return char.isdecimal() or (char.isalpha() and unicodedata.name(char, "").startswith("LATIN"))


def _check_reference(request: SpeechRequest, recipe: SpeechRecipe) -> None:
    reference = request.reference
    if reference is None:
        if recipe.requires == "reference":
            message = f"model {request.model!r} has no voices of its own; send a recording of one"
            raise InvalidRequest(message, param="reference")
        return
    if not recipe.clones_voices:
        raise InvalidRequest(f"model {request.model!r} cannot clone a voice", param="reference")
    if reference.sample_rate != recipe.sample_rate or not reference.samples:
        message = f"the recording must have {recipe.sample_rate} samples a second"
        raise InvalidRequest(message, param="reference")
    if len(reference.samples) % FLOAT_BYTES:
        raise InvalidRequest("the recording has half a sample", param="reference")


def _voice(request: SpeechRequest, recipe: SpeechRecipe) -> str | None:
    if request.reference is not None:
        return None
    if request.voice is None:
        return recipe.default_voice
    by_name = {name.lower(): name for name in recipe.voices}
    if request.voice.lower() not in by_name:
        raise UnknownVoice(request.voice, tuple(recipe.voices))
    return by_name[request.voice.lower()]


def _language(request: SpeechRequest, recipe: SpeechRecipe) -> str | None:
    if request.language is None:
        return None
    if not recipe.languages:
        message = f"model {request.model!r} has no choice of languages; leave language out"
        raise InvalidRequest(message, param="language")
    name = request.language.lower()
    name = _LANGUAGES.get(name, name)
    if name not in recipe.languages:
        raise InvalidRequest(
            f"model {request.model!r} does not speak {request.language!r}; it speaks "
            f"{', '.join(recipe.languages)}",
            param="language",
        )
    return name


class SpokenText:
    """The chunks of one checked request, spoken with a loaded model.

    A task of its own waits for the engine, so that any task may read, and an operator can cancel it.
    """

    def __init__(
        self,
        request: SpeechRequest,
        recipe: SpeechRecipe,
        call: CallContext,
        *,
        session: ModelSession,
        entry: RequestEntry,
    ) -> None:
        assert request.seed is not None, "a checked request has a seed"
        self._request, self._recipe, self._session, self._entry = request, recipe, session, entry
        self._seed, self._request_id = request.seed, call.request_id
        # One chunk: the engine's own reports wait where a caller reads slowly.
        self._chunks: asyncio.Queue[SpeechChunk | Exception] = asyncio.Queue(maxsize=1)
        if call.record.keeps_content:
            entry.content = TokenContent(
                prompt_ids=request.text.encode(), answer_ids=(), bytes_of=lambda byte: bytes((byte,))
            )

    async def chunks(self) -> AsyncGenerator[SpeechChunk, None]:
        """Yield the chunks; closing cancels the rest. Raises CapacityError, EngineError."""
        speaking = asyncio.create_task(self._run(), name="speak")
        try:
            while True:
                chunk = await self._chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
                if chunk.is_last:
                    return
        finally:
            speaking.cancel()
            await asyncio.wait({speaking})

    async def _run(self) -> None:
        try:
            with self._entry.until_done():
                for place, sentence in enumerate(self._pieces()):
                    await self._speak(sentence, self._seed + place)
                end = SpeechChunk(samples=b"", sample_rate=self._recipe.sample_rate, is_last=True)
                await self._chunks.put(end)
        except Exception as error:  # the reader raises it
            await self._chunks.put(error)

    def _pieces(self) -> Iterator[str]:
        text, recipe = self._request.text, self._recipe
        if recipe.clones_voices and not recipe.voices and self._request.reference is None:
            return cut_sentences(text, max_chars=_WHOLE_TEXT_CHARS, min_chars=_WHOLE_TEXT_CHARS)
        return cut_sentences(text)

    async def _speak(self, sentence: str, seed: int) -> None:
        request = self._request
        command = partial(
            Speak,
            request_id=self._request_id,
            model=self._session.name,
            text=sentence,
            seed=seed % 2**63,
            voice=request.voice,
            instructions=request.instructions,
            language=request.language,
            speed=request.speed,
            reference=request.reference,
        )
        async with aclosing(self._session.stream_job(command)) as reports:
            async for report in reports:
                if not report.samples:
                    continue
                self._entry.num_prompt += report.num_text_tokens
                self._entry.generated(report.num_audio_tokens)
                # Texts of later sentences are read, too: limits count them.
                self._entry.num_prefilled = self._entry.num_prompt
                chunk = SpeechChunk(
                    samples=report.samples,
                    sample_rate=self._recipe.sample_rate,
                    num_text_tokens=report.num_text_tokens,
                    num_audio_tokens=report.num_audio_tokens,
                )
                await self._chunks.put(chunk)
