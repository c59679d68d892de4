"""Tools for files and commands in the chat's working directory.

Every call needs approval. Event-loop thread only; files are read and written by worker threads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from mlxctl.chat.tools.shell import SHELL_SECONDS, run_command
from mlxctl.chat.tools.toolbox import Tool, error_result, no_caution, text_result
from mlxctl.ir import ToolCallPart, ToolResultPart, ToolSpec
from mlxctl.state.locations import expand_user
from mlxctl.state.locations.regular_file import read_regular_file

MAX_FILE_BYTES = 2_000_000
MAX_READ_CHARACTERS = 20_000
MAX_ENTRIES = 500
_READ_LINES = 500

Line = Annotated[int, Meta(ge=1)]


class ReadFile(Struct, forbid_unknown_fields=True):
    """Arguments of `read_file`."""

    path: str
    first_line: Line | None = None
    num_lines: Line | None = None


class ListDirectory(Struct, forbid_unknown_fields=True):
    """Arguments of `list_directory`."""

    path: str | None = None


class WriteFile(Struct, forbid_unknown_fields=True):
    """Arguments of `write_file`."""

    path: str
    content: str


class Shell(Struct, forbid_unknown_fields=True):
    """Arguments of `shell`."""

    command: str


Arguments = TypeVar("Arguments", bound=Struct)
PathArguments = TypeVar("PathArguments", ReadFile, ListDirectory, WriteFile)


class ToolFailed(Exception):
    """A call failed; the message is for the model."""


class WorkspaceTools:
    """The tools of one directory as a `ToolSource`.

    Paths are relative to it. A call with a path outside it, also through a link, has a caution.
    """

    def __init__(self, directory: Path, *, shell_seconds: float = SHELL_SECONDS) -> None:
        self._directory = directory.resolve()
        self._shell_seconds = shell_seconds
        self.name = f"the working directory {_with_tilde(self._directory)}"
        self.problem: str | None = None
        self.tools = [
            self._path_tool(
                ReadFile,
                "read_file",
                f"Read a text file, {_READ_LINES} lines at a time",
                {
                    "path": _text("Path, relative to the working directory"),
                    "first_line": _integer_or_null("First line to read, from 1"),
                    "num_lines": _integer_or_null(f"Number of lines, {_READ_LINES} by default"),
                },
                self._read_file,
            ),
            self._path_tool(
                ListDirectory,
                "list_directory",
                "List the files of a directory with their sizes",
                {"path": _text("Path, relative to the working directory, which is the default", "null")},
                self._list_directory,
            ),
            self._path_tool(
                WriteFile,
                "write_file",
                "Write a text file; an existing one is replaced",
                {
                    "path": _text("Path, relative to the working directory"),
                    "content": _text("The whole content of the file"),
                },
                self._write_file,
            ),
            self._tool(
                Shell,
                "shell",
                "Run a command with /bin/sh in the working directory, "
                f"for at most {shell_seconds:g} seconds. "
                "It gets no input and few environment variables, and its background processes end with it",
                {"command": _text("The command")},
                self._shell,
            ),
        ]

    async def open(self) -> None:
        """Do nothing: the tools are part of the program."""

    async def close(self) -> None:
        """Do nothing: a command ends with its call."""

    def _path_tool(
        self,
        kind: type[PathArguments],
        name: str,
        description: str,
        properties: dict[str, Any],
        run: Callable[[PathArguments, Path], str],
    ) -> Tool:
        """Return a tool with a path; a worker thread runs it."""

        async def run_in_thread(arguments: PathArguments) -> str:
            return await asyncio.to_thread(run, arguments, self._resolve(arguments.path or "."))

        def caution(call: ToolCallPart) -> str | None:
            try:
                path = self._resolve(_arguments(call, kind).path or ".")
            except ToolFailed:
                # The call fails with this reason, without touching a file.
                return None
            if path.is_relative_to(self._directory):
                return None
            return f"{path} is outside the working directory {self._directory}."

        return self._tool(kind, name, description, properties, run_in_thread, caution=caution)

    def _tool(
        self,
        kind: type[Arguments],
        name: str,
        description: str,
        properties: dict[str, Any],
        run: Callable[[Arguments], Awaitable[str]],
        *,
        caution: Callable[[ToolCallPart], str | None] = no_caution,
    ) -> Tool:
        async def run_call(call: ToolCallPart) -> ToolResultPart:
            try:
                return text_result(call, await run(_arguments(call, kind)))
            except ToolFailed as error:
                return error_result(call, str(error))
            except OSError as error:
                return error_result(call, error.strerror or str(error))

        def accepts(call: ToolCallPart) -> bool:
            try:
                _arguments(call, kind)
            except ToolFailed:
                return False
            return True

        # Strict tools of OpenAI have all properties required; those that may be left out are null then.
        parameters = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return Tool(
            spec=ToolSpec(name=name, description=description, parameters=parameters, is_strict=True),
            origin=self.name,
            needs_approval=True,
            run=run_call,
            accepts=accepts,
            caution=caution,
        )

    def _resolve(self, name: str) -> Path:
        """Return the absolute path, links followed. Raises ToolFailed."""
        try:
            return (self._directory / expand_user(name)).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolFailed(f"{name!r} is not a path: {error}") from None

    def _read_file(self, arguments: ReadFile, path: Path) -> str:
        if path.is_dir():
            raise ToolFailed(f"{arguments.path!r} is a directory; list_directory lists it")
        if path.exists() and not path.is_file():
            raise ToolFailed(f"{arguments.path!r} is not a regular file")
        data = read_regular_file(path, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailed(f"{arguments.path!r} has more than {MAX_FILE_BYTES // 1_000_000} MB")
        if b"\0" in data:
            raise ToolFailed(f"{arguments.path!r} is not a text file")
        lines = data.decode("utf-8", errors="replace").splitlines(keepends=True)
        start = (arguments.first_line or 1) - 1
        end = start + (arguments.num_lines or _READ_LINES)
        return _cut_lines(lines[start:end], first=start + 1, num_all=len(lines))

    def _list_directory(self, arguments: ListDirectory, path: Path) -> str:
        if path.is_file():
            raise ToolFailed(f"{arguments.path!r} is a file; read_file reads it")
        entries = list(islice(path.iterdir(), MAX_ENTRIES + 1))
        lines = [_entry(entry) for entry in sorted(entries[:MAX_ENTRIES])]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"[only {MAX_ENTRIES} entries are listed; there are more]")
        return "\n".join(lines) or "[the directory is empty]"

    def _write_file(self, arguments: WriteFile, path: Path) -> str:
        data = arguments.content.encode("utf-8", errors="replace")
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailed(f"the content has more than {MAX_FILE_BYTES // 1_000_000} MB")
        if path.exists() and not path.is_file():
            raise ToolFailed(f"{arguments.path!r} is not a regular file")
        is_replaced = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"{'replaced' if is_replaced else 'created'} {arguments.path} with {len(data):,} bytes"

    async def _shell(self, arguments: Shell) -> str:
        ended = await run_command(arguments.command, self._directory, seconds=self._shell_seconds)
        if not ended.is_success:
            raise ToolFailed(ended.text)
        return ended.text


def _arguments(call: ToolCallPart, kind: type[Arguments]) -> Arguments:
    """Return the arguments of a call. Raises ToolFailed."""
    try:
        return msgspec.json.decode(call.arguments or "{}", type=kind, strict=False)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ToolFailed(f"wrong arguments: {error}") from None


def _cut_lines(lines: list[str], *, first: int, num_all: int) -> str:
    """Return the lines within the limit, with a note about the others."""
    num_characters, kept = 0, 0
    for line in lines:
        num_characters += len(line)
        if kept and num_characters > MAX_READ_CHARACTERS:
            break
        kept += 1
    text = "".join(lines[:kept])
    if len(text) > MAX_READ_CHARACTERS:
        text = f"{text[:MAX_READ_CHARACTERS]}\n[the rest of this line is left out]"
    last = first + kept - 1
    if first > 1 or last < num_all:
        more = f"; first_line {last + 1} continues" if last < num_all else ""
        text = f"{text.rstrip(chr(10))}\n[lines {first:,} to {last:,} of {num_all:,}{more}]"
    return text or "[the file is empty]"


def _entry(path: Path) -> str:
    try:
        if path.is_dir():
            return f"{path.name}/"
        return f"{path.name}  {path.lstat().st_size:,} bytes"
    except OSError:
        return path.name


def _with_tilde(path: Path) -> str:
    home = expand_user("~")
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def _text(description: str, *others: str) -> dict[str, Any]:
    return {"type": ["string", *others] if others else "string", "description": description}


def _integer_or_null(description: str) -> dict[str, Any]:
    return {"type": ["integer", "null"], "description": description}
