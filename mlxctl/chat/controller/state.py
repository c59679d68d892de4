"""The state of a chat that its commands read and change. Pure."""

import asyncio
from collections import deque

from mlxctl.chat.attachments import Attachment, describe_attached
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_commands import COMMANDS
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatEntry, QueuedQuestion, numbers_of
from mlxctl.chat.throughput_meter import ThroughputMeter
from mlxctl.ir.errors import StoreError

MAX_QUEUED = 8
"""Questions that may wait for the end of an answer."""


class ChatState:
    """Conversation, options, model and input of a chat. Event-loop thread only.

    `has_input`: the front end has an input that keeps text, and keys for commands. `opened` is set when a
    model is loaded, or there is none to ask. `is_busy`: an answer or a summary is in progress. An `edited`
    question replaces the old one and what follows it when it is sent; `draft` is what the input had before.
    """

    def __init__(self, setup: ChatSetup, *, has_input: bool, shows_statistics: bool = False) -> None:
        self.backend = setup.backend
        self.tools = setup.tools
        self.options = setup.options
        self.autosave = setup.autosave
        self.conversation = setup.conversation
        self.attachments = setup.attachments
        self.has_input = has_input
        self.shows_statistics = shows_statistics
        self.model: BackendModel | None = None
        self.opened = asyncio.Event()
        self.is_busy = False
        self.queue: deque[QueuedQuestion] = deque()
        self.edited: ChatEntry | None = None
        self.draft = QueuedQuestion(text="")
        self.reset_metrics(setup.conversation.num_context_tokens)

    def reset_metrics(self, num_context_tokens: int | None = None) -> None:
        """Forget the metrics of the last answer; the conversation is another one."""
        self.meter = ThroughputMeter()
        self.num_context_tokens = num_context_tokens

    @property
    def model_name(self) -> str:
        """The name of the model; empty without one."""
        return self.model.name if self.model is not None else ""

    @property
    def all_attachments(self) -> tuple[Attachment, ...]:
        """The attachments of the conversation and of the next question."""
        return (*self.conversation.attachments, *self.attachments)

    @property
    def is_waiting_for_tools(self) -> bool:
        """Whether only tools are still starting."""
        return self.model is not None and bool(self.tools.opening)

    @property
    def can_stop(self) -> bool:
        """Whether there is something to stop."""
        return self.is_busy or self.is_waiting_for_tools

    @property
    def replaced(self) -> tuple[ChatEntry, ...]:
        """The entries that sending the edited question removes."""
        if self.edited is None:
            return ()
        return (self.edited, *self.conversation.within(self.edited, "after"))

    def describe_input(self) -> str:
        """Return what the next question has besides its text."""
        images = f"with {describe_attached(self.attachments)}" if self.attachments else ""
        if self.edited is None:
            return images
        about = f"editing message {self.edited.number}{images and f', {images}'}"
        return f"{about}: Enter replaces {numbers_of(self.replaced)}, Esc cancels"

    def key(self, action: str) -> str:
        """Return the key of a command, or its slash name."""
        command = next(command for command in COMMANDS if command.action == action)
        return command.display_keys if self.has_input else f"/{command.names[0]}"

    def take_back(self) -> str | None:
        """Remove the last queued question, attach its files, and return its text."""
        if not self.queue:
            return None
        queued = self.queue.pop()
        self.attachments = (*self.attachments, *queued.attachments)
        return queued.text

    def question(self, number: str) -> ChatEntry:
        """Return the question of a message, by default the last. Raises ValueError."""
        if number:
            return self.conversation.question_of(self.conversation.find(number))
        question = self.conversation.last_question
        if question is None:
            raise ValueError("There is no question yet.")
        return question

    def check_idle(self) -> None:
        """Raise ValueError while an answer is in progress."""
        if self.is_busy:
            raise ValueError("An answer is in progress. Esc stops it.")

    def check_attached(self, attached: tuple[Attachment, ...], *, hint: str = "") -> None:
        """Raise StoreError if the model does not accept attachments."""
        if self.model is not None and (reason := self.model.rejection(attached)):
            is_of_model = reason != self.model.document_problem
            raise StoreError(f"{reason}.{' /model chooses another model.' if is_of_model else ''}{hint}")

    def check_question(self, attached: tuple[Attachment, ...]) -> None:
        """Check that a question with these files can be asked.

        Raises ValueError or StoreError.
        """
        if len(self.queue) >= MAX_QUEUED:
            raise ValueError(f"{MAX_QUEUED} questions are queued already. Up takes the last one back.")
        if self.opened.is_set() and self.model is None:
            raise ValueError("There is no model to ask. See the error above.")
        hint = " /attach without a file removes the attached files." if self.attachments else ""
        self.check_attached((*self.attachments, *attached), hint=hint)
