"""The prompt that an answer begins with."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mlxctl.adapters import PreparedInput
from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.engine import RowUpdate
from mlxctl.ir import TextDelta, TokenLogprob, TokenScore

Describe = Callable[[Sequence[TokenScore]], tuple[TokenLogprob, ...]]


class Echo:
    """Says the prompt once: at once, or where it has log-probabilities when the engine has told all of them."""

    def __init__(self, text: str, token_ids: Sequence[int], describe: Describe | None = None) -> None:
        self._text = text
        self._token_ids = token_ids
        self._describe = describe
        self._scores: list[TokenScore] = []
        self._is_said = not text and describe is None

    @classmethod
    def of(cls, prepared: PreparedInput, reader: AnswerReader) -> "Echo":
        """Return the echo that a prompt asks for, which may be none."""
        describe = partial(reader.prompt_logprobs, prepared) if prepared.scores_prompt else None
        return cls(prepared.echo, prepared.token_ids, describe)

    def add(self, updates: Iterable[RowUpdate]) -> None:
        """Take what the engine says of the prompt."""
        for score in (score for update in updates for score in update.prompt_scores):
            token_id = self._token_ids[len(self._scores) + 1]
            self._scores.append(TokenScore(token_id=token_id, logprob=score.logprob, top=tuple(score.top)))

    def take(self) -> list[TextDelta]:
        """Return what is to be said now, nothing before its time and after it."""
        if self._is_said or (self._describe is not None and len(self._scores) + 1 < len(self._token_ids)):
            return []
        self._is_said = True
        return [TextDelta(text=self._text, logprobs=self._describe(self._scores) if self._describe else ())]
