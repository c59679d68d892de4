"""Options of a request that another server cannot be asked for."""

from collections.abc import Collection
from dataclasses import fields

from mlxctl.ir import GenerationRequest, SamplingOptions, SamplingParams
from mlxctl.ir.context_edits import ClearToolUses
from mlxctl.ir.errors import InvalidRequest

_NEUTRAL = SamplingParams()
_WIRE_NAMES = {"num_top_logprobs": "logprobs", "tone_curve": "hlg", "repetition": "dry_multiplier"}


def check_common(request: GenerationRequest) -> None:
    """Refuse what no chat protocol carries. Raises InvalidRequest, which names the field."""
    if request.prompts or request.suffix is not None:
        raise InvalidRequest("raw prompts cannot be sent to another server; send messages", param="prompt")
    if request.num_choices != 1:
        raise InvalidRequest("another server answers once per request; set n to 1", param="n")
    for name, is_set in (
        ("echo", request.echo),
        ("prompt_logprobs", request.scores_prompt),
        ("logprobs", request.sampling.num_top_logprobs is not None),
        ("stop_token_ids", bool(request.stop_token_ids)),
        ("return_token_ids", request.returns_token_ids),
        ("add_generation_prompt", not (request.opens_answer or request.continues_answer)),
        ("adapter", bool(request.adapters)),
        ("max_tokens", request.max_tokens == 0),
        ("context_management", any(isinstance(each, ClearToolUses) for each in request.context_edits)),
    ):
        if is_set:
            raise InvalidRequest(f"{name} works with a model of this machine only; leave it out", param=name)


def refuse_set(sampling: SamplingOptions, *, except_for: Collection[str], protocol: str) -> None:
    """Refuse sampling options other than these. Raises InvalidRequest.

    One that changes nothing is none.
    """
    for field in fields(sampling):
        value = getattr(sampling, field.name)
        # Drafts change no token, and a seed without effect would be one that is not honored.
        if field.name in (*except_for, "speculation") or value is None:
            continue
        if field.name == "seed" or value != getattr(_NEUTRAL, field.name):
            name = _WIRE_NAMES.get(field.name, field.name)
            raise InvalidRequest(f"{name} cannot be sent in {protocol}; leave it out", param=name)
