"""Log-probabilities in the words of chat completions."""

from collections.abc import Iterable

from mlxctl.ir import TokenLogprob, TopLogprob

# JSON has no infinity; this is the value that the protocol documents for "very unlikely".
LOWEST = -9999.0


def logprobs_object(logprobs: Iterable[TokenLogprob]) -> dict[str, object]:
    """Return the `logprobs` object of a choice."""
    tokens = [_token(token) | {"top_logprobs": [_token(candidate) for candidate in token.top]} for token in logprobs]
    return {"content": tokens, "refusal": None}


def _token(token: TokenLogprob | TopLogprob) -> dict[str, object]:
    return {"token": token.token, "bytes": list(token.data), "logprob": max(token.logprob, LOWEST)}
