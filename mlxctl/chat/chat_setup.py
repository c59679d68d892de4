"""What a chat starts with."""

from dataclasses import dataclass, field

from mlxctl.chat.attachments import Attachment
from mlxctl.chat.chat_backend import ChatBackend
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.toolbox import ToolBox


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSetup:
    """Backend, options and tools of a chat, and the conversation to continue.

    The `attachments` go with the first question. By default the chat is new and not saved.
    """

    backend: ChatBackend
    options: ChatOptions
    tools: ToolBox
    autosave: SessionAutosave = field(default_factory=lambda: SessionAutosave(None))
    conversation: Conversation = field(default_factory=Conversation)
    attachments: tuple[Attachment, ...] = ()
