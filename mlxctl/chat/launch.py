"""Start a chat: one prompt, a full screen, or lines of text."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from mlxctl.chat.answer_report import ReportFormat
from mlxctl.chat.attachments import read_attachments
from mlxctl.chat.chat_backend import ChatBackend
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.export import load_exported
from mlxctl.chat.mentions import read_mentions
from mlxctl.chat.preferences import Preferences, preferences_file
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.terminal import redirect_stderr, screen_problem
from mlxctl.chat.tools.demo import DemoTools
from mlxctl.chat.tools.mcp_config import read_mcp_config
from mlxctl.chat.tools.toolbox import ToolBox, ToolSource
from mlxctl.chat.tools.workspace import WorkspaceTools
from mlxctl.ir.errors import InvalidRequest, SettingsError, UsageError
from mlxctl.state import locations
from mlxctl.state.installed import missing_for
from mlxctl.state.stores import SessionStore, SessionSummary
from mlxctl.terminal_text import echo


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialConversation:
    """Start of a chat: empty, a saved chat, or an exported file.

    At most one of `is_last`, `chat_id` (a prefix of the id) and `file`. With `is_saved` off nothing is
    read from or written to the store.
    """

    is_last: bool = False
    chat_id: str | None = None
    file: Path | None = None
    is_saved: bool = True


async def load_initial_conversation(
    initial: InitialConversation, options: ChatOptions, autosave: SessionAutosave
) -> tuple[ChatOptions, Conversation]:
    """Return the options and the conversation to continue.

    The options keep their own system prompt if they have one. Raises StoreError.
    """
    if initial.file is not None:
        system_prompt, messages = load_exported(initial.file)
    elif initial.is_last or initial.chat_id is not None:
        chat = await (autosave.load_last() if initial.chat_id is None else autosave.load(initial.chat_id))
        autosave.continue_chat(chat)
        system_prompt, messages = chat.system_prompt, list(chat.messages)
    else:
        return options, Conversation()
    return replace(options, system_prompt=options.system_prompt or system_prompt), Conversation(messages)


def built_in_tools() -> list[ToolSource]:
    """Return the tools of every chat on a terminal."""
    return [DemoTools(), WorkspaceTools(Path.cwd())]


def open_toolbox(mcp_config: Path, *, has_built_in: bool) -> ToolBox:
    """Return the tools of the MCP servers of a file. Raises SettingsError."""
    servers = read_mcp_config(mcp_config)
    if missing := missing_for("mcp"):
        raise SettingsError(f"MCP servers need {missing}")
    from mlxctl.chat.tools.mcp_server import McpServer

    sources: list[ToolSource] = [McpServer(name, config) for name, config in servers.items()]
    return ToolBox([*sources, *(built_in_tools() if has_built_in else [])])


MAX_PIPED_BYTES = 16_000_000
"""Limit for a prompt from a pipe."""


def run_chat(
    backend: ChatBackend,
    options: ChatOptions,
    initial: InitialConversation,
    *,
    prompt: str | None = None,
    images: Sequence[Path] = (),
    is_plain: bool,
    report: ReportFormat | None = None,
    tools: ToolBox | None = None,
) -> int:
    """Chat until the user quits, or answer `prompt`; return the exit code.

    Piped text is added below the prompt and the files that it names as `@path`. The `images`, which may be
    PDF files, go with the first question. Raises StoreError when the conversation or a file cannot be read,
    and MlxctlError when a plain chat cannot be opened. `tools` replace the built-in ones; their calls, and
    those that the options want confirmed, need a terminal. Without a terminal the built-in tools are those
    that need no approval.
    """
    autosave = SessionAutosave(_store() if initial.is_saved else None)
    options, conversation = asyncio.run(load_initial_conversation(initial, options, autosave))
    attached = read_attachments(images, existing=conversation.attachments)
    if prompt:
        # Piped text is not searched: a diff may name files that the user does not want to send.
        mentioned = read_mentions(_as_text(prompt), existing=(*conversation.attachments, *attached))
        prompt, attached = mentioned.text, (*attached, *mentioned.attachments)
        for note in mentioned.notes:
            echo(note, err=True)
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    setup = ChatSetup(
        backend=backend,
        options=replace(options, system_prompt=_as_text(options.system_prompt)),
        tools=_choose_tools(tools, options, is_terminal=is_terminal),
        autosave=autosave,
        conversation=conversation,
        attachments=attached,
    )
    prompt = _with_piped_text(prompt, is_terminal=is_terminal)
    if prompt is None and not is_plain and (reason := screen_problem(sys.stdin, sys.stdout)):
        echo(f"mlxctl: {reason}, so this is --plain", err=True)
        is_plain = True
    if prompt is None and not is_plain:
        return _run_screen(setup)
    from mlxctl.chat.plain_chat import run_plain

    return run_plain(setup, prompt=prompt, report=report)


def _choose_tools(tools: ToolBox | None, options: ChatOptions, *, is_terminal: bool) -> ToolBox:
    """Return `tools` or the built-in ones. Raises UsageError."""
    if (options.asks_before_tools or tools is not None) and not is_terminal:
        raise UsageError("--ask-tools and --mcp-config ask before a call: standard input must be a terminal")
    return tools or ToolBox(built_in_tools() if is_terminal else [DemoTools()])


def _run_screen(setup: ChatSetup) -> int:
    """Chat on the full screen; return the exit code."""
    from mlxctl.chat.app import ChatApp

    app = ChatApp(setup, preferences=Preferences(preferences_file()))
    with redirect_stderr(locations.state_directory() / "chat.log"):
        app.run()
    return app.return_code or 0


def _with_piped_text(prompt: str | None, *, is_terminal: bool) -> str | None:
    """Return the prompt with the piped text, None for a dialog."""
    if is_terminal:
        return None if prompt is None else join_prompt(prompt, "")
    # None when the shell closed standard input (`<&-`).
    stdin: TextIO | None = sys.stdin
    return join_prompt(prompt or "", "" if stdin is None else _read_piped(stdin.buffer))


def _as_text(argument: str) -> str:
    """Return an argument as UTF-8, whatever the locale.

    In others Python represents some of its bytes by surrogates, which no tokenizer reads.
    """
    return os.fsencode(argument).decode("utf-8", errors="replace")


def join_prompt(prompt: str, piped: str) -> str:
    """Return the argument with the piped text below it.

    Raises UsageError when both are empty.
    """
    text = "\n\n".join(part for part in (prompt.strip(), piped.strip("\r\n")) if part.strip())
    if not text:
        raise UsageError("the prompt is empty: give a question as an argument or on standard input")
    return text


def _read_piped(source: BinaryIO) -> str:
    data = source.read(MAX_PIPED_BYTES + 1)
    if len(data) > MAX_PIPED_BYTES:
        raise InvalidRequest(f"standard input has more than {MAX_PIPED_BYTES // 1_000_000} MB of text")
    return data.decode("utf-8", errors="replace")


def saved_chats() -> tuple[SessionSummary, ...]:
    """Return the saved chats, newest first. Raises StoreError."""
    return _store().search()


def _store() -> SessionStore:
    return SessionStore(locations.state_directory() / "chats.db")
