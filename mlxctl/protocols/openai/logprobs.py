"""Log probabilities as chat completions and responses write them."""

from collections.abc import Iterable

from mlxctl.ir import TokenLogprob, TopLogprob
from mlxctl.protocols.openai.chat_answers import ChatLogprobs, LogprobCandidate, SampledTokenLogprob

# JSON has no infinity; OpenAI documents this value for very unlikely tokens.
LOWEST = -9999.0


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> ChatLogprobs | None:
    """Return the `logprobs` of a choice, None without any token."""
    content = token_logprobs(logprobs)
    return ChatLogprobs(content=content, refusal=None) if content else None


def token_logprobs(logprobs: Iterable[TokenLogprob]) -> list[SampledTokenLogprob]:
    """Return sampled tokens with their candidates."""
    return [
        SampledTokenLogprob(
            token=token.token,
            bytes=list(token.data),
            logprob=_finite(token),
            top_logprobs=[
                LogprobCandidate(
                    token=candidate.token, bytes=list(candidate.data), logprob=_finite(candidate)
                )
                for candidate in token.top
            ],
        )
        for token in logprobs
    ]


def _finite(token: TokenLogprob | TopLogprob) -> float:
    assert token.logprob is not None, "only the first token of a prompt has none, and prompts are not written"
    return max(token.logprob, LOWEST)
