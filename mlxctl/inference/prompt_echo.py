"""Echo of a prompt in front of its answer."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mlxctl.engine import RowUpdate
from mlxctl.formats.adapters import PreparedInput
from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.ir import GenerationRequest, TextDelta, TokenLogprob, TokenScore

DescribeScores = Callable[[Sequence[TokenScore]], tuple[TokenLogprob, ...]]


class PromptEcho:
    """Emits the prompt once, with log-probabilities if requested.

    These delay it until the engine has sent all of them.
    """

    def __init__(
        self, text: str, token_ids: Sequence[int], describe_scores: DescribeScores | None = None
    ) -> None:
        self._text = text
        self._token_ids = token_ids
        self._describe_scores = describe_scores
        self._scores: list[TokenScore] = []
        self._is_emitted = False

    @classmethod
    def of(
        cls, request: GenerationRequest, prepared: PreparedInput, reader: AnswerReader
    ) -> "PromptEcho | None":
        """Create the echo for a prepared prompt.

        None unless the request asks for one.
        """
        if not prepared.echo and not request.scores_prompt:
            return None
        describe = partial(reader.prompt_logprobs, prepared) if request.scores_prompt else None
        return cls(prepared.echo, prepared.token_ids, describe)

    def add(self, updates: Iterable[RowUpdate]) -> None:
        """Add the prompt's scores from the engine's updates."""
        for score in (score for update in updates for score in update.prompt_scores):
            token_id = self._token_ids[len(self._scores) + 1]
            self._scores.append(TokenScore(token_id=token_id, logprob=score.logprob, top=tuple(score.top)))

    def take(self) -> list[TextDelta]:
        """Return the echo once it is complete; otherwise, and later, nothing."""
        is_scored = self._describe_scores is None or len(self._scores) + 1 >= len(self._token_ids)
        if self._is_emitted or not is_scored:
            return []
        self._is_emitted = True
        logprobs = self._describe_scores(self._scores) if self._describe_scores else ()
        return [TextDelta(text=self._text, logprobs=logprobs)]
