"""`mlxctl speak`: a text as audio, played or in a file."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ApiKey
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.run import open_backend
from mlxctl.cli.running_server import check_url, speaking_server
from mlxctl.ir.audio_format import AudioFormat
from mlxctl.ir.errors import SettingsError, UsageError
from mlxctl.state.settings import resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.chat.chat_backend import BackendModel, ChatBackend
    from mlxctl.ir import SpeechChunk, SpeechRequest

# An hour of speech.
_MAX_CHARS = 60_000
_SUFFIXES: dict[str, AudioFormat] = {
    **{f".{kind}": kind for kind in get_args(AudioFormat)},
    ".ogg": "opus",
    ".raw": "pcm",
}


@command(
    epilog="Examples: mlxctl speak 'Dinner is ready.'    mlxctl speak -o news.mp3 < news.txt    "
    "mlxctl speak --list-voices"
)
def speak(
    text: Annotated[
        str | None, Argument(help="Text to read. Without it, piped text is read.", metavar="TEXT")
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            "--out", "-o", metavar="FILE", help="Write a .wav, .mp3, .opus, .ogg, .flac or .pcm file instead."
        ),
    ] = None,
    voice: Annotated[
        str | None, Option("--voice", metavar="NAME", help="Voice of the model.  [default: of the model]")
    ] = None,
    list_voices: Annotated[bool, Option("--list-voices", help="List the voices of the model.")] = False,
    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Speech model, as `mlxctl run` takes it.  [default: that of a running server]",
            offers="models or short names",
        ),
    ] = None,
    instructions: Annotated[
        str | None, Option("--instructions", metavar="TEXT", help="How to speak, such as 'whisper'.")
    ] = None,
    speed: Annotated[float, Option("--speed", min=0.25, max=4, help="Speed.")] = 1.0,
    url: Annotated[str | None, Option("--url", help="Use the server at this URL.", metavar="URL")] = None,
    api_key: ApiKey = None,
    local: Annotated[
        bool, Option("--local", help="Load the model here, even if a running server has it.")
    ] = False,
) -> None:
    """Read a text aloud, or write it to an audio file.

    A server that runs on this machine and has the model is used; else the model is loaded here, and
    downloaded first if needed. Without -o it is played by afplay on a Mac, else by paplay or aplay.
    """
    with report_errors():
        from mlxctl.chat.audio_player import find_player
        from mlxctl.chat.speech_text import split_text
        from mlxctl.ir import SpeechRequest

        check_url(url, is_local=local)
        parts = [] if list_voices else split_text(_read_text(text))
        kind = _format_of(out) if out is not None else None
        player = find_player() if out is None and not list_voices else ""
        backend = _open(url, model, api_key, is_local=local)
        is_named = model is not None or url is None
        if list_voices:
            _print_voices(asyncio.run(_list_voices(backend, is_named=is_named)))
            return
        requests = [
            SpeechRequest(model="", text=part, voice=voice, instructions=instructions, speed=speed)
            for part in parts
        ]
        chunks = _spoken(backend, requests, is_named=is_named)
        if out is not None and kind is not None:
            seconds = asyncio.run(_write(chunks, out, kind))
            echo(f"mlxctl: wrote {seconds:.1f} s of audio to {out}", err=True)
        else:
            asyncio.run(_play(chunks, player))


def _read_text(text: str | None) -> str:
    """Return the text, or that of the pipe. Raises UsageError."""
    if text is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("there is no text: give TEXT, or pipe it in")
        text = sys.stdin.read(_MAX_CHARS + 1)
    if not text.strip():
        raise UsageError("the text is empty: there is nothing to read")
    if len(text) > _MAX_CHARS:
        raise UsageError(f"the text has more than {_MAX_CHARS:,} characters; read it in parts")
    return text


def _format_of(file: Path) -> AudioFormat:
    """Return the format by the file's suffix. Raises UsageError."""
    kind = _SUFFIXES.get(file.suffix.lower())
    if kind is None:
        raise UsageError(f"the name of {file} must end in one of {', '.join(_SUFFIXES)}")
    return kind


def _open(url: str | None, model: str | None, api_key: str | None, *, is_local: bool) -> "ChatBackend":
    """Return a server with the model, or a local engine. Raises SettingsError."""
    if model is not None:
        return open_backend(url, model, api_key, is_local=is_local, is_quiet=True)
    if url is not None:
        from mlxctl.chat.chat_backend import RemoteBackend

        return RemoteBackend(url, api_key=api_key)
    found = None if is_local else speaking_server(resolve(environment=os.environ), api_key=api_key)
    if found is None:
        raise SettingsError(
            "no server with a speech model runs here; name a model with --model, such as qwen3-tts:0.6b, or "
            "start `mlxctl serve` with one"
        )
    return found


def _print_voices(voices: tuple[str, ...]) -> None:
    for voice in voices:
        echo(voice)
    if not voices:
        echo("mlxctl: the model lists no voices; leave --voice out", err=True)


async def _opened(backend: "ChatBackend", *, is_named: bool) -> "BackendModel":
    """Open the backend, and return the model that speaks. Raises MlxctlError."""
    opened = await backend.open()
    name = opened.name if is_named else backend.speech_model()
    if name is None:
        raise SettingsError(f"the server at {backend.address} has no speech model; start it with one")
    return opened if name == opened.name else await backend.switch(name)


async def _list_voices(backend: "ChatBackend", *, is_named: bool) -> tuple[str, ...]:
    try:
        return (await _opened(backend, is_named=is_named)).voices
    finally:
        await backend.close()


async def _spoken(
    backend: "ChatBackend", requests: "Sequence[SpeechRequest]", *, is_named: bool
) -> "AsyncGenerator[SpeechChunk, None]":
    """Yield the chunks of all requests, one after the other."""
    from msgspec.structs import replace

    try:
        model = await _opened(backend, is_named=is_named)
        for request in requests:
            async with aclosing(backend.speak(replace(request, model=model.name))) as chunks:
                async for chunk in chunks:
                    yield chunk
    finally:
        await backend.close()


async def _play(chunks: "AsyncGenerator[SpeechChunk, None]", player: str) -> None:
    from mlxctl.chat.audio_player import play

    async with aclosing(chunks):
        await play(player, chunks)


async def _write(chunks: "AsyncGenerator[SpeechChunk, None]", path: Path, kind: AudioFormat) -> float:
    """Write the audio, and return its seconds. A failure leaves no file."""
    from mlxctl.formats.adapters.media.speech_files import SpeechFile
    from mlxctl.ir.speech import FLOAT_BYTES

    part, seconds, encoder = path.with_name(f"{path.name}.part"), 0.0, None
    try:
        with part.open("wb") as file:
            async with aclosing(chunks):
                async for chunk in chunks:
                    encoder = encoder or SpeechFile(kind, chunk.sample_rate)
                    file.write(encoder.write(chunk.samples))
                    seconds += len(chunk.samples) / FLOAT_BYTES / chunk.sample_rate
            if encoder is not None:
                file.write(encoder.close())
                for offset, correction in encoder.corrections:
                    file.seek(offset)
                    file.write(correction)
        part.replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return seconds
