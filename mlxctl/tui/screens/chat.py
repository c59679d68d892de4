"""The chat screen: questions go to the conversation and the model, answers to the transcript.

UI thread only.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Footer
from textual.worker import Worker, WorkerCancelled

from mlxctl.errors import (
    CapacityError,
    ConnectionLost,
    EngineError,
    MlxctlError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.tui.backend_connection import HINTS, greeting, open_backend
from mlxctl.tui.conversation import Conversation, Said
from mlxctl.tui.event_batching import coalesce
from mlxctl.tui.exchange import Exchange
from mlxctl.tui.gc_tuning import collect_all, collect_recent, keep_collections_short
from mlxctl.tui.history_loader import Earlier
from mlxctl.tui.keys import COMMANDS, SCROLL_KEYS, Command
from mlxctl.tui.messages import InterruptPressed, PasteFolded, QuestionSubmitted, TopNear
from mlxctl.tui.replay import replay
from mlxctl.tui.screens.windows import ChatWindows
from mlxctl.tui.slash import SlashCommand, UnknownCommand, read_input
from mlxctl.tui.throughput_meter import Pace
from mlxctl.tui.widgets.answer import Answer
from mlxctl.tui.widgets.composer import Composer
from mlxctl.tui.widgets.find_bar import FindBar
from mlxctl.tui.widgets.header import Header
from mlxctl.tui.widgets.notice import Kind, Notice
from mlxctl.tui.widgets.question import Question
from mlxctl.tui.widgets.status_line import Status, StatusLine
from mlxctl.tui.widgets.too_small import MIN_HEIGHT, MIN_WIDTH, TooSmall
from mlxctl.tui.widgets.transcript import Transcript

DELTA_SECONDS = 0.05
"""How long deltas are gathered before they are drawn together."""

_STATUS_SECONDS = 0.1
_IDLE_SECONDS = 1.0
_CHECK_SECONDS = 5.0
_QUIT_SECONDS = 2.0
_MIN_HEIGHT_WITH_HEADER = 18
_DISCONNECTED = "server not reachable"


class ChatScreen(ChatWindows):
    """One conversation with one backend."""

    DEFAULT_CSS = """
    ChatScreen { layers: base top; &.-too-small > * { display: none; } &.-too-small > TooSmall { display: block; }
        &.-low > Header { display: none; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual declares it so
        *(
            # With priority where Textual's own binding, which is not shown, has it.
            Binding(
                item.keys,
                item.action,
                item.word,
                bool(item.word),
                item.shown_as,
                priority=item.action.startswith("app."),
            )
            for item in COMMANDS
        ),
        *(Binding(keys, action, show=False) for keys, action in SCROLL_KEYS),
    ]

    def compose(self) -> ComposeResult:
        """Transcript above, input below, numbers and keys at the bottom."""
        transcript = Transcript()
        self._earlier = Earlier(transcript, self._conversation.said)
        yield Header()
        yield transcript
        yield FindBar(transcript, complete=self._draw_all)
        yield Composer()
        yield StatusLine()
        yield Footer(show_command_palette=False)
        yield TooSmall()

    async def on_mount(self) -> None:
        """Show the first frame, and open the backend behind it."""
        self._opening_notice = Notice(f"Connecting to {self._backend.where} …")
        self._interrupted_at = 0.0
        self.query_one(Composer).focus()
        self._show_attached(self._attached)
        await self._transcript.add(self._opening_notice)
        if not self._conversation.said:
            await self._transcript.add(Notice(HINTS))
        self._show_status()
        self.set_interval(_STATUS_SECONDS, self._show_status)
        self.set_interval(_CHECK_SECONDS, self._check)
        self.call_after_refresh(self._open)

    def on_resize(self, event: events.Resize) -> None:
        """Say so when there is no room."""
        was_too_small = self.has_class("-too-small")
        self.set_class(event.size.width < MIN_WIDTH or event.size.height < MIN_HEIGHT, "-too-small")
        self.set_class(event.size.height < _MIN_HEIGHT_WITH_HEADER, "-low")
        self.call_after_refresh(self._show_status)
        if was_too_small and not self.has_class("-too-small"):
            # What was hidden has lost the cursor.
            self.call_after_refresh(self.query_one(Composer).focus)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 -- Textual calls it so
        """Offer to stop only while there is something to stop."""
        return self._is_busy if action == "stop" else True

    def on_worker_state_changed(self, changed: Worker.StateChanged) -> None:
        """An answer began or ended: other keys apply."""
        if changed.worker is self._answering:
            self.refresh_bindings()

    @on(QuestionSubmitted)
    async def submit(self, submitted: QuestionSubmitted) -> None:
        """Run a slash command or ask the model; what cannot be done goes back into the input."""
        composer = self.query_one(Composer)
        match read_input(submitted.text):
            case UnknownCommand(message=message):
                self.notify(message, severity="warning", markup=False)
                composer.give_back(submitted.text)
            case SlashCommand(command=command, argument=argument):
                composer.remember(submitted.text)
                await self._run_command(command, argument)
            case str() as question:
                if (reason := self._refuses_question()) is not None:
                    self.notify(reason, severity="warning", markup=False)
                    composer.give_back(submitted.text)
                else:
                    composer.remember(submitted.text)
                    await self._ask(question)

    def _refuses_question(self) -> str | None:
        if self._is_busy:
            return "An answer is in progress. Esc stops it."
        if self._opened.is_set() and self._model is None:
            return "There is no model to ask. See the error above."
        if self._attached and (reason := self._refuses_images):
            return f"{reason} /image without a file removes the attached images."
        return None

    async def _ask(self, question: str) -> None:
        self._conversation.ask(question, self._take_attached())
        await self._transcript.add(Question(question, num_images=len(self._conversation.last_images)))
        self._save()
        self._answering = self._answer()

    async def _run_command(self, command: Command, argument: str) -> None:
        if argument:
            await self._run_with_argument(command.action, argument)
        elif command.action == "app.quit":
            self.app.exit()
        else:
            await self.run_action(command.action)

    @on(PasteFolded)
    def say_folded(self, folded: PasteFolded) -> None:
        """Say where a long paste went."""
        self.notify(
            f"Pasted {folded.num_characters:,} characters. They are shown as one mark and sent in full."
        )

    @on(InterruptPressed)
    def action_interrupt(self) -> None:
        """Stop the answer; with none, quit at the second time."""
        if self._is_busy:
            self.action_stop()
        elif time.monotonic() - self._interrupted_at < _QUIT_SECONDS:
            self.app.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.notify("Press Ctrl-C again to quit.", timeout=_QUIT_SECONDS)

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
            self.notify("An answer is in progress. Esc stops it.", severity="warning")
        elif self._model is None or (before := self._conversation.forget_answer()) is None:
            self.notify("There is no question to retry.", severity="warning")
        else:
            await self._draw_last_question()
            await self._transcript.drop_answer()
            self._answering = self._answer(before)

    async def action_edit_last(self) -> None:
        """Take the last question back into the input."""
        if self._is_busy:
            self.notify("An answer is in progress. Esc stops it.", severity="warning")
        elif self._conversation.last_question is None:
            self.notify("There is no question to edit.", severity="warning")
        else:
            self._show_attached(self._conversation.last_images)
            text = self._conversation.take_back_question() or ""
            await self._draw_last_question()
            await self._transcript.drop_question()
            self.query_one(Composer).give_back(text)

    async def action_new(self) -> None:
        """Start a new conversation; the one before is kept."""
        await self._settle()
        self._autosave.begin()
        await self._turn_to(Conversation())
        await self._transcript.add(Notice("New chat."))

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
        """Open the backend, and draw earlier messages before it is there."""
        await asyncio.to_thread(_import_drawing)
        await self._draw_near().wait()
        self._become("loading")
        self._model = await open_backend(self._backend, say=self._say_opening)
        self._become("ready" if self._model is not None else "no model")
        if self._model is not None:
            self._opening_notice.say(greeting(self._model))
        keep_collections_short()
        self._opened.set()

    @work(group="open")
    async def _switch(self, name: str) -> None:
        """Load another model; a question that is asked meanwhile waits for it."""
        self._model = None
        self._become(f"loading {name}")
        # What is said later about loading stands where it began, above the questions that wait for it.
        self._opening_notice = Notice(f"Loading {name} …")
        await self._transcript.add(self._opening_notice)
        try:
            self._model = await self._backend.switch(name)
        except MlxctlError as error:
            self._become("no model")
            self._opening_notice.say(f"{error}. /model chooses another model.", kind="error")
        else:
            self._become("ready")
            self._opening_notice.say(greeting(self._model))
        finally:
            self._opened.set()

    def _say_opening(self, text: str, kind: Kind) -> None:
        self._become("waiting for the server")
        self._opening_notice.say(text, kind=kind)

    @work(group="check", exclusive=True)
    async def _check(self) -> None:
        """Ask now and then whether the server still answers, when nothing else would tell."""
        if self._is_busy or self._model is None or self._state not in ("ready", _DISCONNECTED):
            return
        try:
            await self._backend.check()
        except ServerUnreachable:
            state = _DISCONNECTED
        except MlxctlError:
            # It is there, and says why it cannot answer when it is asked.
            return
        else:
            state = "ready"
        if not self._is_busy and self._state in ("ready", _DISCONNECTED):
            self._become(state)

    @work(group="earlier")
    async def _draw_near(self) -> None:
        await self._earlier.draw(while_wanted=lambda: self._transcript.is_near_top)

    async def _draw_all(self) -> None:
        await self._earlier.draw()

    async def _draw_last_question(self) -> None:
        await self._earlier.draw(while_wanted=lambda: not self._transcript.has_question)

    @work(group="answer", exclusive=True)
    async def _answer(self, before: Sequence[Said] = ()) -> None:
        """Have the last question answered; text that came stays, or the answer `before` when nothing came."""
        answer = Answer()
        state = "ready"
        await self._transcript.add(answer)
        try:
            await self._opened.wait()
            await self._stream(answer)
            answer.end()
        except asyncio.CancelledError:
            kept = await self._keep(answer, before)
            answer.end(Notice(f"Stopped. {kept} ^R retries, ^L edits the question.", kind="warning"))
            raise
        except (EngineError, CapacityError) as error:
            kept = await self._keep(answer, before)
            answer.end(Notice(f"{error}. {kept} ^R retries.", kind="error"))
            if isinstance(error, ServerUnreachable | ConnectionLost):
                state = _DISCONNECTED
        except MlxctlError as error:
            if before:
                answer.end(Notice(f"{error}. {await self._keep(answer, before)}", kind="error"))
            else:
                answer.end(Notice(f"{error}. The question is back in the input.", kind="error"))
                # Behind them comes what was attached while the answer was on its way.
                self._show_attached((*self._conversation.last_images, *self._attached))
                self.query_one(Composer).give_back(self._conversation.take_back_question() or "")
        finally:
            self._become(state if self._model is not None else "no model")
            self._save()
            self.set_timer(_IDLE_SECONDS, self._collect_when_idle)

    async def _keep(self, answer: Answer, before: Sequence[Said]) -> str:
        """Restore the answer `before` when nothing came instead; returns what to say of it."""
        if self._conversation.is_answered:
            return "Partial answer kept."
        for said in before:
            self._conversation.add(said)
        await answer.show(replay(before))
        return "Previous answer kept." if before else "No output."

    @work(group="save")
    async def _save(self) -> None:
        model = self._model.name if self._model is not None else ""
        try:
            await self._autosave.save(
                self._conversation.said, model=model, system_prompt=self._options.system_prompt
            )
        except StoreError as error:
            self.notify(f"The chat is not saved: {error}", severity="warning", markup=False)

    def _collect_when_idle(self) -> None:
        if not self._is_busy:
            collect_recent()

    async def _stream(self, answer: Answer) -> None:
        if self._model is None:
            raise EngineError("there is no model to ask")
        self._become("answering")
        self._pace = Pace()
        exchange = Exchange(
            self._backend, self._model, self._conversation, self._options, ask=self._ask_about
        )
        async with aclosing(coalesce(self._pace.watch(exchange.run()), seconds=DELTA_SECONDS)) as batches:
            async for batch in batches:
                await answer.show(batch)

    def _show_status(self) -> None:
        model = self._model.name if self._model else "no model yet"
        self.query_one(Header).show(model, self._conversation.title)
        self.query_one(StatusLine).show(
            Status(
                model=model,
                state=self._state,
                seconds=time.monotonic() - self._state_since,
                numbers=self._pace.numbers(),
                context_length=self._model.context_length if self._model else None,
                has_tools=self._options.uses_tools,
            )
        )


def _import_drawing() -> None:
    """Import what draws answers while the screen is already there."""
    from rich.syntax import Syntax

    from mlxctl.tui.widgets.markdown_segment import MarkdownSegment

    assert MarkdownSegment is not None, "imported for what it takes with it"
    Syntax("pass", "python").highlight("pass")
