"""The conversation that a chat starts with: none, an earlier chat, or a file."""

from dataclasses import dataclass, replace
from pathlib import Path

from mlxctl.tui.conversation import Conversation
from mlxctl.tui.export import open_exported
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.session_autosave import SessionAutosave


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """At most one of them: the last chat, the chat whose id begins with `session_id`, or an exported file.

    Without `keeps` nothing is found and nothing is kept.
    """

    is_last: bool = False
    session_id: str | None = None
    file: Path | None = None
    keeps: bool = True


async def begin(
    beginning: Beginning, options: ChatOptions, autosave: SessionAutosave
) -> tuple[ChatOptions, Conversation]:
    """Return the conversation to go on with, and its system prompt unless the options have one.

    Raises StoreError.
    """
    if beginning.file is not None:
        system_prompt, said = open_exported(beginning.file)
    elif beginning.is_last or beginning.session_id is not None:
        chat = await (
            autosave.load_last() if beginning.session_id is None else autosave.load(beginning.session_id)
        )
        autosave.go_on_with(chat)
        system_prompt, said = chat.system_prompt, list(chat.said)
    else:
        return options, Conversation()
    return replace(options, system_prompt=options.system_prompt or system_prompt), Conversation(said)
