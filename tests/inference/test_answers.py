"""Several answers to one request: what ends them all."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlxctl.inference.answers import Answers
from mlxctl.ir import SamplingParams, StreamEvent, TextDelta


class _Choice:
    """One answer: a text, and then a failure or silence."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure
        self.is_cancelled = False

    async def __aiter__(self) -> AsyncIterator[list[StreamEvent]]:
        yield [TextDelta(text="a")]
        if self._failure is not None:
            raise self._failure
        await asyncio.Event().wait()

    def cancel(self) -> None:
        self.is_cancelled = True


def test_unexpected_error_of_one_answer_ends_the_wait_for_all() -> None:
    choices = [_Choice(), _Choice(ZeroDivisionError("a bug"))]

    async def run() -> None:
        answers = Answers(choices, num_prompt_tokens=1, sampling=SamplingParams(temperature=0))  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(10):
                async for _ in answers:
                    pass
        finally:
            answers.cancel()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert all(choice.is_cancelled for choice in choices)
