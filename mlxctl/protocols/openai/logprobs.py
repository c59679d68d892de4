"""Log probabilities as chat completions and responses write them."""

from collections.abc import Iterable

from mlxctl.ir import TokenLogprob, TopLogprob
from mlxctl.protocols.openai.chat_answers import (
    ChatLogprobs,
    LogprobCandidate,
    PromptLogprob,
    PromptLogprobs,
    SampledTokenLogprob,
)
from mlxctl.protocols.ranges import MAX_TOP_LOGPROBS

# JSON has no infinity; OpenAI documents this value for very unlikely tokens.
LOWEST = -9999.0


def prompt_logprobs(logprobs: Iterable[TokenLogprob], num_top: int) -> PromptLogprobs:
    """Return the log-probabilities of a prompt, with `num_top` candidates for each position."""
    return [_position(token, num_top) for token in logprobs]


def _position(token: TokenLogprob, num_top: int) -> dict[str, PromptLogprob] | None:
    if token.logprob is None:
        return None
    ranks = {candidate.token_id: rank for rank, candidate in enumerate(token.top, 1)}
    found: list[TokenLogprob | TopLogprob] = [token, *token.top[:num_top]]
    return {
        str(each.token_id): PromptLogprob(_finite(each), ranks.get(each.token_id), each.token)
        for each in found
    }


def token_name(token: TokenLogprob | TopLogprob, *, as_id: bool) -> str:
    """Return a token's text, or its id as vLLM writes it."""
    return f"token_id:{token.token_id}" if as_id else token.token


def chat_logprobs(
    logprobs: Iterable[TokenLogprob], *, num_top: int = MAX_TOP_LOGPROBS, as_ids: bool = False
) -> ChatLogprobs | None:
    """Return the `logprobs` of a choice, None without any token."""
    content = token_logprobs(logprobs, num_top=num_top, as_ids=as_ids)
    return ChatLogprobs(content=content, refusal=None) if content else None


def token_logprobs(
    logprobs: Iterable[TokenLogprob], *, num_top: int = MAX_TOP_LOGPROBS, as_ids: bool = False
) -> list[SampledTokenLogprob]:
    """Return sampled tokens with up to `num_top` candidates.

    `as_ids` writes ids in place of their text.
    """
    return [
        SampledTokenLogprob(
            token=token_name(token, as_id=as_ids),
            bytes=list(token.data),
            logprob=_finite(token),
            top_logprobs=[
                LogprobCandidate(
                    token=token_name(candidate, as_id=as_ids),
                    bytes=list(candidate.data),
                    logprob=_finite(candidate),
                )
                for candidate in token.top[:num_top]
            ],
        )
        for token in logprobs
    ]


def _finite(token: TokenLogprob | TopLogprob) -> float:
    assert token.logprob is not None, "only the first token of a prompt has none"
    return max(token.logprob, LOWEST)
