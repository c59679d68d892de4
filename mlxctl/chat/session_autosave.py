"""Saves the conversation after each message, and finds saved ones.

Event-loop thread only; worker threads access the store.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass

import msgspec

from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.messages_json import from_messages, to_messages
from mlxctl.ir.errors import StoreError
from mlxctl.state.settings.documents import DocumentError, parse_json
from mlxctl.state.stores import Session, SessionStore, SessionSummary
from mlxctl.terminal_text import escape_line

_TITLE_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedChat:
    """A saved conversation that can be continued."""

    summary: SessionSummary
    system_prompt: str
    messages: tuple[ChatMessage, ...]


class SessionAutosave:
    """Saves one conversation under its id; does nothing without a store."""

    def __init__(self, store: SessionStore | None) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self.start_new_chat()

    @property
    def is_enabled(self) -> bool:
        """Whether chats are saved."""
        return self._store is not None

    @property
    def chat_id(self) -> str:
        """The id of the current chat, which may not be saved yet."""
        return self._id

    def start_new_chat(self) -> None:
        """Use a new id from now on."""
        self._id = secrets.token_hex(6)
        self._started_at = time.time()

    def continue_chat(self, chat: SavedChat) -> None:
        """Save under the id of an earlier chat from now on."""
        self._id = chat.summary.id
        self._started_at = chat.summary.started_at

    async def save(self, messages: tuple[ChatMessage, ...], *, model: str, system_prompt: str) -> None:
        """Save the conversation, unless it has no question. Raises StoreError."""
        questions = [item.message.text for item in messages if item.message.role == "user"]
        if self._store is None or not questions:
            return
        chat_id, started_at = self._id, self._started_at
        async with self._lock:
            await asyncio.to_thread(
                self._save, messages, chat_id, started_at, _title(questions[0]), model, system_prompt
            )

    async def search(self, query: str = "") -> tuple[SessionSummary, ...]:
        """Return the chats that contain the text, newest first.

        Raises StoreError.
        """
        return () if self._store is None else await asyncio.to_thread(self._store.search, query)

    async def load(self, chat_id: str) -> SavedChat:
        """Return the chat whose id starts with `chat_id`.

        Raises StoreError when there is none, or several, or it is damaged.
        """
        session = None if self._store is None else await asyncio.to_thread(self._store.find, chat_id)
        if session is None:
            raise StoreError(f"no single chat id starts with {chat_id!r}; mlxctl chat --list shows the ids")
        return await asyncio.to_thread(_read, session)

    async def load_last(self) -> SavedChat:
        """Return the most recent chat. Raises StoreError when there is none."""
        chats = await self.search()
        if not chats:
            raise StoreError("there is no earlier chat to continue")
        return await self.load(chats[0].id)

    async def delete(self, chat_id: str) -> None:
        """Delete a chat; the current chat gets a new id.

        Raises StoreError.
        """
        if self._store is not None:
            await asyncio.to_thread(self._store.delete, chat_id)
        if chat_id == self._id:
            self.start_new_chat()

    async def delete_current(self) -> None:
        """Delete the saved copy of the current chat. Raises StoreError."""
        await self.delete(self._id)

    async def close(self) -> None:
        """Wait for a running save, then close the store."""
        async with self._lock:
            if self._store is not None:
                await asyncio.to_thread(self._store.close)

    def _save(
        self,
        messages: tuple[ChatMessage, ...],
        chat_id: str,
        started_at: float,
        title: str,
        model: str,
        system_prompt: str,
    ) -> None:
        assert self._store is not None, "checked by the caller"
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        body = msgspec.json.encode([*system, *to_messages(messages)])
        summary = SessionSummary(
            id=chat_id,
            title=title,
            model=model,
            started_at=started_at,
            used_at=time.time(),
            num_messages=len(messages),
        )
        text = "\n".join(item.message.text for item in messages)
        self._store.save(Session(summary=summary, text=text, body=body))


def saved_line(summary: SessionSummary) -> str:
    """Return a saved chat on one line: id, time, model, title."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.used_at))
    return escape_line(f"{summary.id}  {when}  {summary.model}  {summary.title}")


def _read(session: Session) -> SavedChat:
    try:
        system_prompt, messages = from_messages(parse_json(session.body))
    except (StoreError, DocumentError) as error:
        raise StoreError(f"the chat {session.summary.id} cannot be read: {error}") from None
    return SavedChat(summary=session.summary, system_prompt=system_prompt, messages=tuple(messages))


def _title(question: str) -> str:
    line = next((line.strip() for line in question.splitlines() if line.strip()), "")
    return line if len(line) <= _TITLE_CHARACTERS else f"{line[: _TITLE_CHARACTERS - 1]}…"
