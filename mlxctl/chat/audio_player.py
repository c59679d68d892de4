"""Plays speech with a program of this machine."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import which

from mlxctl.formats.adapters.media.speech_files import SpeechFile
from mlxctl.ir import SpeechChunk
from mlxctl.ir.errors import NoPlayer

# In the order of preference. `{rate}` is the sample rate; afplay reads files only.
_STREAMING = {
    "paplay": ("--raw", "--format=s16le", "--channels=1", "--rate={rate}"),
    "aplay": ("-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}"),
}
_FILE_PLAYER = "afplay"
_HEADER_BYTES = 44


def find_player() -> str:
    """Return the path of a program that plays audio. Raises NoPlayer."""
    found = next((path for name in (_FILE_PLAYER, *_STREAMING) if (path := which(name))), None)
    if found is None:
        names = ", ".join((_FILE_PLAYER, *_STREAMING))
        raise NoPlayer(f"no program on PATH plays audio (of {names}); -o FILE writes a file instead")
    return found


async def play(player: str, chunks: AsyncIterator[SpeechChunk]) -> None:
    """Play chunks with a program of `find_player`; a cancellation ends it.

    They are played as they come, but by afplay at the end. Raises NoPlayer when the program fails.
    """
    if Path(player).name == _FILE_PLAYER:
        await _play_file(player, chunks)
        return
    process: asyncio.subprocess.Process | None = None
    try:
        async for chunk in chunks:
            if process is None:
                process = await _start(player, chunk.sample_rate)
            await _write(process, chunk)
        if process is not None:
            await _finish(player, process)
    finally:
        _kill(process)


async def _start(player: str, sample_rate: int) -> asyncio.subprocess.Process:
    options = [option.format(rate=sample_rate) for option in _STREAMING[Path(player).name]]
    return await _run(player, *options, has_input=True)


async def _write(process: asyncio.subprocess.Process, chunk: SpeechChunk) -> None:
    assert process.stdin is not None, "the program reads a pipe"
    try:
        process.stdin.write(_pcm(chunk))
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        # Its exit status says why.
        return


def _pcm(chunk: SpeechChunk) -> bytes:
    """Return the 16-bit samples of a chunk in its own rate."""
    return SpeechFile("wav", chunk.sample_rate).write(chunk.samples)[_HEADER_BYTES:]


async def _play_file(player: str, chunks: AsyncIterator[SpeechChunk]) -> None:
    file: SpeechFile | None = None
    audio = bytearray()
    async for chunk in chunks:
        file = file or SpeechFile("wav", chunk.sample_rate)
        audio += file.write(chunk.samples)
    if file is None:
        return
    audio += file.close()
    for offset, correction in file.corrections:
        audio[offset : offset + len(correction)] = correction
    process: asyncio.subprocess.Process | None = None
    with tempfile.TemporaryDirectory(prefix="mlxctl-") as directory:
        path = Path(directory) / "speech.wav"
        await asyncio.to_thread(path.write_bytes, audio)
        try:
            process = await _run(player, str(path), has_input=False)
            await _finish(player, process)
        finally:
            _kill(process)


async def _run(player: str, *options: str, has_input: bool) -> asyncio.subprocess.Process:
    nothing = asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            player,
            *options,
            stdin=asyncio.subprocess.PIPE if has_input else nothing,
            stdout=nothing,
            stderr=nothing,
        )
    except OSError as error:
        raise NoPlayer(f"{player} cannot be started: {error.strerror}") from None


async def _finish(player: str, process: asyncio.subprocess.Process) -> None:
    """Wait until the audio is played."""
    if process.stdin is not None:
        process.stdin.close()
    if status := await process.wait():
        raise NoPlayer(f"{player} could not play the audio (status {status}); -o FILE writes a file instead")


def _kill(process: asyncio.subprocess.Process | None) -> None:
    if process is not None and process.returncode is None:
        process.kill()
