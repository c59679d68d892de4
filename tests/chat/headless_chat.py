"""A chat without a screen: it keeps what its commands want shown."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.chat_turn import ChatTurn
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.controller import perform_all, submit
from mlxctl.chat.controller.effects import Effect, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.ir.errors import MlxctlError

from .scripted_backend import ScriptedBackend

_SAID = do.Notify | do.Write | do.Announce | do.Confirm | do.EndAnswer


class HeadlessChat:
    """Runs commands; `agrees` answers each confirmation.

    `input` keeps what commands put there, `path` is the answer to a question for one. `during_answer` are
    texts that are sent while the first answer is running; `stops` stops each answer at its end.
    """

    def __init__(
        self,
        backend: ScriptedBackend | None = None,
        *,
        conversation: Conversation | None = None,
        autosave: SessionAutosave | None = None,
        has_input: bool = True,
        **options: Any,
    ) -> None:
        self.backend = backend or ScriptedBackend()
        setup = ChatSetup(
            backend=self.backend,
            options=ChatOptions(**options),
            tools=ToolBox(),
            autosave=autosave or SessionAutosave(None),
            conversation=conversation or Conversation(),
        )
        self.chat = ChatState(setup, has_input=has_input)
        self.chat.model = BackendModel(name="scripted", context_length=4096, supports_tools=True)
        self.chat.opened.set()
        self.effects: list[Effect] = []
        self.input = ""
        self.path: Path | None = None
        self.agrees = True
        self.stops = False
        self.during_answer: list[str] = []

    def send(self, *texts: str) -> list[str]:
        """Send each text; return what the chat says about it."""
        num_effects = len(self.effects)

        async def play() -> None:
            for text in texts:
                await self._submit(text)

        asyncio.run(play())
        return [
            effect.text for effect in self.effects[num_effects:] if isinstance(effect, _SAID) and effect.text
        ]

    @property
    def texts(self) -> list[str]:
        """The texts of the conversation."""
        return [entry.text for entry in self.chat.conversation.entries]

    async def _submit(self, text: str) -> None:
        await perform_all(submit(self.chat, text), self._perform)

    async def _perform(self, effect: Effect) -> object:
        self.effects.append(effect)
        match effect:
            case do.Answer():
                return await self._answer()
            case do.CallLong():
                try:
                    return await effect.function()
                except MlxctlError as error:
                    return error
            case do.Confirm():
                return self.agrees
            case do.AskPath():
                return self.path
            case do.Copy():
                return "OSC 52"
            case do.ReadInput():
                return self.input
            case do.SetInput():
                self.input = effect.text
            case do.Edit():
                self.input = effect.question.text
            case do.Restore():
                self.input = f"{effect.text}\n{self.input}" if self.input else effect.text
            case _:
                pass
        return None

    async def _answer(self) -> MlxctlError | Stopped | None:
        sent, self.during_answer = self.during_answer, []
        for text in sent:
            await self._submit(text)
        assert self.chat.model is not None
        turn = ChatTurn(
            self.backend, self.chat.model, self.chat.conversation, self.chat.options, tools=self.chat.tools
        )
        try:
            async with aclosing(turn.run()) as updates:
                async for _ in updates:
                    pass
        except MlxctlError as error:
            return error
        return Stopped() if self.stops else None
