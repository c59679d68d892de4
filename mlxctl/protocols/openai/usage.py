"""Token counts of chat completions and completions."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir import Usage


class CachedTokens(Struct):
    """Prompt tokens that the prefix cache held."""

    cached_tokens: int


class ReasoningTokens(Struct):
    """Completion tokens that were thinking."""

    reasoning_tokens: int


class CompletionDetails(ReasoningTokens):
    """Counts of thinking tokens and of draft tokens.

    The latter are absent without speculative decoding. Accepted ones are part of the completion, rejected
    ones are not.
    """

    accepted_prediction_tokens: int | UnsetType = UNSET
    rejected_prediction_tokens: int | UnsetType = UNSET


class CompletionUsage(Struct):
    """Token counts of a request.

    Cached tokens are part of the prompt's, thinking tokens of the completion's. `dropped_messages` is there
    if `context_overflow` left messages out.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: CompletionDetails
    dropped_messages: int | UnsetType = UNSET


def completion_usage(usages: Sequence[Usage], *, num_choices: int) -> CompletionUsage:
    """Return the sum over all choices.

    The `num_choices` usages of each prompt follow each other. A prompt counts once, by its first choice.
    """
    firsts = usages[::num_choices]
    num_prompt_tokens = sum(usage.num_prompt_tokens for usage in firsts)
    num_completion_tokens = sum(usage.num_completion_tokens for usage in usages)
    return CompletionUsage(
        prompt_tokens=num_prompt_tokens,
        completion_tokens=num_completion_tokens,
        total_tokens=num_prompt_tokens + num_completion_tokens,
        prompt_tokens_details=CachedTokens(sum(usage.num_cached_tokens for usage in firsts)),
        completion_tokens_details=_details(usages),
        dropped_messages=sum(usage.num_dropped_messages for usage in firsts) or UNSET,
    )


def _details(usages: Sequence[Usage]) -> CompletionDetails:
    num_accepted = sum(usage.num_accepted_draft_tokens for usage in usages)
    num_rejected = sum(usage.num_rejected_draft_tokens for usage in usages)
    num_thinking = sum(usage.num_thinking_tokens for usage in usages)
    if not num_accepted + num_rejected:
        return CompletionDetails(num_thinking)
    return CompletionDetails(num_thinking, num_accepted, num_rejected)
