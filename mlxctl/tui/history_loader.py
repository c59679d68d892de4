"""An earlier conversation, drawn from its end, and further up when the screen is scrolled near."""

import asyncio
from collections.abc import Callable, Sequence

from mlxctl.ir import Message
from mlxctl.tui.conversation import Said
from mlxctl.tui.replay import replay, turns
from mlxctl.tui.widgets.answer import Answer
from mlxctl.tui.widgets.notice import Notice
from mlxctl.tui.widgets.question import Question
from mlxctl.tui.widgets.transcript import Transcript


class Earlier:
    """The turns of a conversation that are not on the transcript yet.

    UI thread only; any number of tasks may draw.
    """

    def __init__(self, transcript: Transcript, said: Sequence[Said] = ()) -> None:
        self._transcript = transcript
        self._turns = list(turns(said))
        self._drawing = asyncio.Lock()

    @property
    def is_waiting(self) -> bool:
        """Whether there is more to draw and no task draws it."""
        return bool(self._turns) and not self._drawing.locked()

    async def draw(self, *, while_wanted: Callable[[], bool] = lambda: True) -> None:
        """Draw turn after turn, the last one first, until no more is wanted or everything is there."""
        async with self._drawing:
            while self._turns and while_wanted():
                with self._transcript.growing_above():
                    await self._draw_one(*self._turns.pop())
                    await self._transcript.laid_out()

    async def forget(self) -> None:
        """Draw no more of it; returns when nothing is on its way any more."""
        self._turns.clear()
        async with self._drawing:
            pass

    async def _draw_one(self, question: Message | None, said: Sequence[Said]) -> None:
        answer = Answer()
        asked = [] if question is None else [Question(question.text, num_images=question.num_images)]
        await self._transcript.add_above(*asked, answer)
        await answer.show(replay(said))
        answer.end(
            Notice("This answer is incomplete.", kind="warning") if said and said[-1].is_partial else None
        )
