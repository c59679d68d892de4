"""The chat: what a person wants goes to the conversation and the model, what comes back to the transcript. UI thread only."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Footer
from textual.worker import WorkerCancelled

from mlxctl.errors import CapacityError, EngineError, MlxctlError, StoreError
from mlxctl.tui.coalescing import coalesce
from mlxctl.tui.conversation import Conversation, Said
from mlxctl.tui.earlier import Earlier
from mlxctl.tui.exchange import Exchange
from mlxctl.tui.garbage import collect_all, collect_recent, keep_collections_short
from mlxctl.tui.keys import SCREEN_KEYS
from mlxctl.tui.messages import InterruptPressed, PasteFolded, QuestionSubmitted, TopNear
from mlxctl.tui.opening import greeting, open_partner
from mlxctl.tui.pace import Pace
from mlxctl.tui.replay import replay
from mlxctl.tui.screens.windows import ChatWindows
from mlxctl.tui.widgets.answer import Answer
from mlxctl.tui.widgets.composer import Composer
from mlxctl.tui.widgets.find_bar import FindBar
from mlxctl.tui.widgets.notice import Notice
from mlxctl.tui.widgets.question import Question
from mlxctl.tui.widgets.status_line import Status, StatusLine
from mlxctl.tui.widgets.too_small import MIN_HEIGHT, MIN_WIDTH, TooSmall
from mlxctl.tui.widgets.transcript import Transcript

DELTA_SECONDS = 0.05
"""How long deltas are gathered before they are drawn together."""

_STATUS_SECONDS = 0.1
_IDLE_SECONDS = 1.0


class ChatScreen(ChatWindows):
    """One conversation with one partner."""

    DEFAULT_CSS = """
    ChatScreen { layers: base top; &.-too-small > * { display: none; } &.-too-small > TooSmall { display: block; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual declares it so
        Binding(key.key, key.action, key.word, show=bool(key.word), key_display=key.shown_as) for key in SCREEN_KEYS
    ]

    def compose(self) -> ComposeResult:
        """Transcript above, input below, numbers and keys at the bottom."""
        transcript = Transcript()
        self._earlier = Earlier(transcript, self._conversation.said)
        yield transcript
        yield FindBar(transcript, complete=self._draw_all)
        yield Composer()
        yield StatusLine()
        yield Footer(show_command_palette=False)
        yield TooSmall()

    async def on_mount(self) -> None:
        """Show the first frame, and open the partner behind it."""
        self.query_one(Composer).focus()
        self._show_attached(self._attached)
        await self._transcript.add(Notice(f"mlxctl chat with {self._partner.where}. F1 shows the keys."))
        self._show_status()
        self.set_interval(_STATUS_SECONDS, self._show_status)
        self.call_after_refresh(self._open)

    def on_resize(self, event: events.Resize) -> None:
        """Say so when there is no room."""
        was_too_small = self.has_class("-too-small")
        self.set_class(event.size.width < MIN_WIDTH or event.size.height < MIN_HEIGHT, "-too-small")
        self.call_after_refresh(self._show_status)
        if was_too_small and not self.has_class("-too-small"):
            # What was hidden has lost the cursor.
            self.call_after_refresh(self.query_one(Composer).focus)

    @on(QuestionSubmitted)
    async def ask(self, submitted: QuestionSubmitted) -> None:
        """Ask the model; a question that comes too early stays in the input."""
        if self._is_busy:
            self.notify("An answer is on its way; Esc stops it.", severity="warning")
            return
        if self._opened.is_set() and self._model is None:
            self.notify("There is no model to ask; see above.", severity="error")
            return
        if self._attached and (reason := self._refuses_images):
            self.notify(f"{reason} F8 without a path takes the images away.", severity="error")
            return
        self.query_one(Composer).accept()
        self._conversation.ask(submitted.text, self._take_attached())
        await self._transcript.add(Question(submitted.text, num_images=len(self._conversation.last_images)))
        self._save()
        self._answering = self._answer()

    @on(PasteFolded)
    def say_folded(self, folded: PasteFolded) -> None:
        """Say where a long paste went."""
        self.notify(f"The paste of {folded.num_characters:,} characters is folded into a mark and sent whole.")

    @on(InterruptPressed)
    def interrupt(self) -> None:
        """Stop, or tell how to leave."""
        if self._is_busy:
            self.action_stop()
        else:
            self.notify("Press Ctrl-Q to quit.")

    @on(TopNear)
    def draw_more(self) -> None:
        """Draw what was said before the first that is to be seen."""
        if self._earlier.is_waiting:
            self._draw_near()

    def action_stop(self) -> None:
        """Stop the answer."""
        if self._answering is not None and self._is_busy:
            self._answering.cancel()

    async def action_regenerate(self) -> None:
        """Answer the last question again."""
        if self._is_busy:
            self.notify("An answer is on its way; Esc stops it.", severity="warning")
        elif self._model is None or (before := self._conversation.forget_answer()) is None:
            self.notify("There is no question to answer again.", severity="warning")
        else:
            await self._draw_last_question()
            await self._transcript.drop_answer()
            self._answering = self._answer(before)

    async def action_edit_last(self) -> None:
        """Take the last question back into the input."""
        if self._is_busy:
            self.notify("An answer is on its way; Esc stops it.", severity="warning")
        elif self._conversation.last_question is None:
            self.notify("There is no question to edit.", severity="warning")
        else:
            self._show_attached(self._conversation.last_images)
            text = self._conversation.take_back_question() or ""
            await self._draw_last_question()
            await self._transcript.drop_question()
            self.query_one(Composer).put(text)

    async def action_new(self) -> None:
        """Begin a new conversation; the one before is kept."""
        await self._settle()
        self._keeper.begin()
        await self._turn_to(Conversation())
        await self._transcript.add(Notice("A new conversation."))

    async def _settle(self) -> None:
        """Stop the answer that is on its way, and keep the conversation as it is then."""
        if self._answering is not None and self._is_busy:
            self._answering.cancel()
            with suppress(WorkerCancelled):
                await self._answering.wait()
        await self._save().wait()

    async def _turn_to(self, conversation: Conversation) -> None:
        """Show another conversation instead."""
        self._conversation = conversation
        self._pace = Pace()
        await self._earlier.forget()
        await self._transcript.clear()
        collect_all()
        self._earlier = Earlier(self._transcript, conversation.said)
        await self._draw_near().wait()

    @work(group="open")
    async def _open(self) -> None:
        """Open the partner, and show what was said before it came."""
        await asyncio.to_thread(_import_drawing)
        await self._draw_near().wait()
        self._state = "loading"
        self._model = await open_partner(self._partner, say=self._say_waiting)
        self._state = "ready" if self._model is not None else "no model"
        if self._model is not None:
            await self._transcript.add(*greeting(self._model))
        keep_collections_short()
        self._opened.set()

    @work(group="open")
    async def _switch(self, name: str) -> None:
        """Take another model; a question that is asked meanwhile waits for it."""
        self._model, self._state = None, f"loading {name}"
        await self._transcript.add(Notice(f"Loading {name} …"))
        try:
            self._model = await self._partner.switch(name)
        except MlxctlError as error:
            self._state = "no model"
            await self._transcript.add(Notice(f"{error}. F4 chooses another model.", kind="error"))
        else:
            self._state = "ready"
            await self._transcript.add(*greeting(self._model))
        finally:
            self._opened.set()

    async def _say_waiting(self, notice: Notice) -> None:
        self._state = "waiting for the server"
        await self._transcript.add(notice)

    @work(group="earlier")
    async def _draw_near(self) -> None:
        await self._earlier.draw(while_wanted=lambda: self._transcript.is_near_top)

    async def _draw_all(self) -> None:
        await self._earlier.draw()

    async def _draw_last_question(self) -> None:
        await self._earlier.draw(while_wanted=lambda: not self._transcript.has_question)

    @work(group="answer", exclusive=True)
    async def _answer(self, before: Sequence[Said] = ()) -> None:
        """Have the last question answered; whatever happens, what came stays, or the answer `before` when nothing came."""
        answer = Answer()
        await self._transcript.add(answer)
        try:
            await self._opened.wait()
            await self._stream(answer)
            answer.end()
        except asyncio.CancelledError:
            kept = await self._keep(answer, before)
            answer.end(Notice(f"Stopped. {kept}^R answers again, ^L edits the question.", kind="warning"))
            raise
        except (EngineError, CapacityError) as error:
            kept = await self._keep(answer, before)
            answer.end(Notice(f"{error}. {kept}^R tries again.", kind="error"))
        except MlxctlError as error:
            if before:
                answer.end(Notice(f"{error}. {await self._keep(answer, before)}", kind="error"))
            else:
                answer.end(Notice(f"{error}. The question is back in the input.", kind="error"))
                # Behind them comes what was attached while the answer was on its way.
                self._show_attached((*self._conversation.last_images, *self._attached))
                self.query_one(Composer).put(self._conversation.take_back_question() or "")
        finally:
            self._state = "ready" if self._model is not None else "no model"
            self._save()
            self.set_timer(_IDLE_SECONDS, self._collect_when_idle)

    async def _keep(self, answer: Answer, before: Sequence[Said]) -> str:
        """Take the answer `before` up again when nothing came instead; returns what to say of it."""
        if self._conversation.is_answered:
            return "What came is kept; "
        for said in before:
            self._conversation.add(said)
        await answer.show(replay(before))
        return "The answer before is kept; " if before else "Nothing came; "

    @work(group="save")
    async def _save(self) -> None:
        model = self._model.name if self._model is not None else ""
        try:
            await self._keeper.save(self._conversation.said, model=model, system_prompt=self._options.system_prompt)
        except StoreError as error:
            self.notify(f"The chat is not kept: {error}", severity="warning")

    def _collect_when_idle(self) -> None:
        if not self._is_busy:
            collect_recent()

    async def _stream(self, answer: Answer) -> None:
        if self._model is None:
            raise EngineError("there is no model to ask")
        self._state = "answering"
        self._pace = Pace()
        exchange = Exchange(self._partner, self._model, self._conversation, self._options, ask=self._ask_about)
        async with aclosing(coalesce(self._pace.watch(exchange.run()), seconds=DELTA_SECONDS)) as batches:
            async for batch in batches:
                await answer.show(batch)

    def _show_status(self) -> None:
        model = self._model.name if self._model else "no model yet"
        self.query_one(StatusLine).show(
            Status(
                model=model,
                state=self._state,
                numbers=self._pace.numbers(),
                context_length=self._model.context_length if self._model else None,
                has_tools=self._options.uses_tools,
            )
        )


def _import_drawing() -> None:
    """Import what draws answers: beside the screen, not in front of the first answer."""
    from rich.syntax import Syntax

    from mlxctl.tui.widgets.prose import Prose

    assert Prose is not None, "imported for what it takes with it"
    Syntax("pass", "python").highlight("pass")
