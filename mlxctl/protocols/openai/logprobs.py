"""Log-probabilities in the words of chat completions and responses."""

from collections.abc import Iterable

from mlxctl.ir import TokenLogprob, TopLogprob

# JSON has no infinity; this is the value that the protocol documents for "very unlikely".
LOWEST = -9999.0


def logprobs_object(logprobs: Iterable[TokenLogprob]) -> dict[str, object]:
    """Return the `logprobs` object of a choice."""
    return {"content": [token_object(token) for token in logprobs], "refusal": None}


def token_object(token: TokenLogprob) -> dict[str, object]:
    """Return the object of one token."""
    return _candidate(token) | {"top_logprobs": [_candidate(candidate) for candidate in token.top]}


def _candidate(token: TokenLogprob | TopLogprob) -> dict[str, object]:
    assert token.logprob is not None, (
        "only the first token of a prompt has none, and these protocols tell no prompts"
    )
    return {"token": token.token, "bytes": list(token.data), "logprob": max(token.logprob, LOWEST)}
