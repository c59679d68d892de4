"""`mlxctl transcribe`: audio files to text or subtitles."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import click
import msgspec

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import INTERRUPTED, report_errors
from mlxctl.cli.options import ApiKey
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.run import local_model
from mlxctl.cli.running_server import RunningServer, check_url, find_server_with, running_servers
from mlxctl.cli.served_directories import name_to_load, open_library
from mlxctl.ir.errors import InvalidRequest, MlxctlError, UsageError
from mlxctl.state.settings import Settings, resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.inference.interface import Inference
    from mlxctl.inference.remote import RemoteModel
    from mlxctl.ir import SegmentObserver, SpeechSegment, TranscriptionResult

Format = Literal["text", "srt", "vtt", "json"]
_SUFFIXES: dict[Format, str] = {"text": "txt", "srt": "srt", "vtt": "vtt", "json": "json"}
_STDIN = "-"
# Four hours of 16-bit stereo at 44.1 kHz have 2.4 GiB; such a file is better compressed, or cut.
_MAX_FILE_BYTES = 1024**3


class _Target(NamedTuple):
    """A server, or an engine with the model of `settings`.

    `is_own`: it is known to be mlxctl's.
    """

    model: str
    url: str | None
    api_key: str | None
    settings: Settings
    is_own: bool = True


class _Segment(msgspec.Struct):
    start: float
    end: float
    text: str


class _Transcript(msgspec.Struct):
    file: str
    text: str
    language: str | None
    duration: float
    segments: list[_Segment]


@command(
    epilog="Examples: mlxctl transcribe talk.mp3 --model whisper:turbo    "
    "mlxctl transcribe *.ogg --format srt -o subtitles"
)
def transcribe(
    files: Annotated[
        list[str], Argument(metavar="FILE...", offers="file", help="Audio files; - is standard input.")
    ],
    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Model of the library or a running server, directory, hub repository or short name such as "
            "whisper:turbo.  [default: the first such model of a running server]",
        ),
    ] = None,
    output_format: Annotated[
        str, Option("--format", metavar="FORMAT", help="Format of the output: text, srt, vtt or json.")
    ] = "text",
    language: Annotated[
        str | None,
        Option("--language", "-l", metavar="CODE", help="Language, such as en.  [default: detected]"),
    ] = None,
    prompt: Annotated[
        str, Option(metavar="TEXT", help="Text before the audio, or words in it.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="DIRECTORY", help="Write a file for each audio file there."),
    ] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress.")] = False,
    url: Annotated[
        str | None, Option(help="Use the server at this URL; --model is one of its models.", metavar="URL")
    ] = None,
    api_key: ApiKey = None,
    local: Annotated[
        bool, Option("--local", help="Load the model here, even if a running server has it.")
    ] = False,
) -> None:
    """Transcribe audio files to text or subtitles.

    A server that runs on this machine and has the model is used, so that it is in memory once. The output
    goes to standard output, progress to standard error. As JSON it is one object a line. A file
    that fails does not stop the others; the exit code is 1 then.
    """
    with report_errors():
        check_url(url, is_local=local)
        wanted = _format_of(output_format)
        if out is None and len(files) > 1 and wanted in ("srt", "vtt"):
            raise UsageError(f"{wanted} of several files needs -o DIRECTORY, with a file for each")
        if out is not None and len({Path(file).stem for file in files}) < len(files):
            raise UsageError("-o DIRECTORY needs files of different names; transcribe the others elsewhere")
        target = _find_target(url, model, api_key, is_local=local, is_quiet=quiet)
        job = _Job(target, wanted, language and language.lower(), prompt, out, is_quiet=quiet)
        try:
            is_good = asyncio.run(job.run(files))
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        if not is_good:
            raise click.exceptions.Exit(1)


def _format_of(name: str) -> Format:
    if name not in _SUFFIXES:
        raise UsageError(f"--format {name!r} is none of {', '.join(_SUFFIXES)}")
    return next(each for each in _SUFFIXES if each == name)


def _find_target(
    url: str | None, model: str | None, api_key: str | None, *, is_local: bool, is_quiet: bool
) -> _Target:
    """Return the server that has the model, or the directory to load.

    Raises UsageError without a model, and what downloading one raises.
    """
    settings = resolve(environment=os.environ)
    if url:
        return _Target(model or "", url, api_key, settings, is_own=False)
    if not is_local:
        found = (
            _first_of(running_servers(settings, api_key))
            if model is None
            else find_server_with(model, settings, api_key=api_key, is_quiet=is_quiet)
        )
        if found is not None:
            server, name = found
            return _Target(name, server.url, server.api_key, settings)
    if model is None:
        raise UsageError("no running server transcribes; name a model, such as --model whisper:turbo")
    path = Path(local_model(name_to_load(model, open_library(None), is_quiet=is_quiet), is_quiet=is_quiet))
    return _Target("", None, None, resolve(environment=os.environ, flags={"model": {"path": path}}))


def _first_of(servers: Sequence[RunningServer]) -> tuple[RunningServer, str] | None:
    found = ((server, name) for server in servers for name, model in server.models.items() if _hears(model))
    return next(found, None)


def _hears(model: "RemoteModel") -> bool:
    return model.can_transcribe and model.problem is None


@asynccontextmanager
async def _opened(target: _Target) -> AsyncIterator[tuple["Inference", str]]:
    """Yield the inference and the model's name there. Raises MlxctlError."""
    if target.url is not None:
        from mlxctl.inference.remote import RemoteInference

        remote = RemoteInference(target.url, api_key=target.api_key)
        try:
            await remote.wait_ready()
            hearing = (each.name for each in remote.models() if _hears(each))
            name = target.model or next(hearing, None)
            yield remote, remote.find_model(name).name
        finally:
            await remote.close()
        return
    from mlxctl.inference.local import LocalInference
    from mlxctl.server.wiring import build_services

    services = build_services(target.settings)
    try:
        await services.inference.open()
        local = LocalInference(services.inference)
        await local.wait_ready()
        yield local, local.models()[0].name
    finally:
        await services.inference.close(drain_seconds=0.0)
        services.close()


class _Job:
    """One call of the command."""

    def __init__(
        self,
        target: _Target,
        output_format: Format,
        language: str | None,
        prompt: str,
        out: Path | None,
        *,
        is_quiet: bool,
    ) -> None:
        self._target, self._format = target, output_format
        self._language, self._prompt, self._out = language, prompt, out
        self._shows_progress = not is_quiet and sys.stderr.isatty()

    async def run(self, files: Sequence[str]) -> bool:
        """Transcribe all files; return whether none failed."""
        is_good = True
        async with _opened(self._target) as (inference, model):
            for file in files:
                try:
                    result = await self._transcribe(inference, model, file)
                    self._write(file, result)
                except InvalidRequest as error:
                    echo(f"mlxctl: {file}: {error}", err=True)
                    is_good = False
                except OSError as error:
                    echo(f"mlxctl: {file}: {error.strerror}", err=True)
                    is_good = False
                except MlxctlError as error:
                    echo(f"mlxctl: {file}: {error}", err=True)
                    return False
        return is_good

    async def _transcribe(self, inference: "Inference", model: str, file: str) -> "TranscriptionResult":
        from mlxctl.ir import TranscriptionRequest

        data = await asyncio.to_thread(_read, file)
        request = TranscriptionRequest(
            model=model,
            num_samples=0,
            read_window=lambda *_: b"",
            encoded=data,
            language=self._language,
            prompt=self._prompt,
        )
        if self._target.url is None:
            from dataclasses import replace

            from mlxctl.formats.adapters.media.audio_files import AudioFile

            audio = await asyncio.to_thread(AudioFile, data)
            request = replace(
                request, num_samples=audio.num_samples, read_window=audio.read_window, speech=audio.speech
            )
        with _progress(file if self._shows_progress else None) as observer:
            # The stream of a server has no language, and that of other programs no times.
            streams = (
                self._target.url is None
                or self._format == "text"
                or (self._format != "json" and self._target.is_own)
            )
            return await inference.transcribe(request, on_segments=observer if streams else None)

    def _write(self, file: str, result: "TranscriptionResult") -> None:
        text = _rendered(file, result, self._format)
        if self._out is None:
            echo(text)
            return
        stem = "stdin" if file == _STDIN else Path(file).stem
        self._out.mkdir(parents=True, exist_ok=True)
        target = self._out / f"{stem}.{_SUFFIXES[self._format]}"
        target.write_text(f"{text}\n", encoding="utf-8")


def _read(file: str) -> bytes:
    """Return the bytes of a file or standard input.

    Raises OSError, and InvalidRequest for too many.
    """
    if file == _STDIN:
        data = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
    else:
        with Path(file).open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidRequest(
            f"the file has more than {_MAX_FILE_BYTES} bytes; compress it or send it in parts", param="file"
        )
    return data


def _rendered(file: str, result: "TranscriptionResult", output_format: Format) -> str:
    from mlxctl.protocols.openai.subtitles import srt, vtt

    match output_format:
        case "text":
            return result.text
        case "srt":
            return srt(result).rstrip("\n")
        case "vtt":
            return vtt(result).rstrip("\n")
        case "json":
            transcript = _Transcript(
                file=file,
                text=result.text,
                language=result.language,
                duration=round(result.duration_seconds, 3),
                segments=[
                    _Segment(start=round(each.start, 3), end=round(each.end, 3), text=each.text.strip())
                    for each in result.segments
                ],
            )
            return msgspec.json.encode(transcript).decode()


@contextmanager
def _progress(file: str | None) -> Iterator["SegmentObserver | None"]:
    """Yield an observer that draws a bar on standard error.

    None without a `file`.
    """
    if file is None:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from mlxctl.cli.console import console

    text, at = (TextColumn(field, markup=False) for field in ("{task.description}", "{task.fields[at]}"))
    columns = (text, BarColumn(), at, TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(Path(file).name, total=None, at="")

        def show(segments: Sequence["SpeechSegment"], duration: float) -> None:
            end = int(segments[-1].end)
            bar.update(task, completed=end, total=duration or None, at=f"{end // 60}:{end % 60:02d}")

        yield show
