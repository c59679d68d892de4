"""Completion bodies to GenerationRequest; errors name the caller's field."""

from typing import Any

import msgspec

from mlxctl.ir import GenerationRequest, SamplingOptions
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.openai import completions_schema as schema
from mlxctl.protocols.openai.completion_fields import check_stream_options, counts_every_chunk, shared_options
from mlxctl.protocols.openai.text_inputs import read_texts
from mlxctl.protocols.openai.unsupported_fields import check_refused
from mlxctl.protocols.ranges import MAX_ANSWERS
from mlxctl.protocols.sampling_fields import sampling_options
from mlxctl.protocols.structured_output import requested_constraint

# OpenAI's default.
_DEFAULT_MAX_TOKENS = 16
_DECODER = msgspec.json.Decoder(schema.CompletionRequest)


def decode_completion(body: bytes, decoder: msgspec.json.Decoder[Any] = _DECODER) -> schema.CompletionRequest:
    """Decode a body and refuse unsupported fields by name. Raises InvalidRequest."""
    request: schema.CompletionRequest = decode_body(body, decoder)
    check_refused(request)
    if request.max_tokens == 0 and not request.echo:
        raise InvalidRequest(
            "max_tokens is 0, which needs echo; raise max_tokens or set echo",
            param="max_tokens",
        )
    num_tried, num_wanted = num_candidates(request), request.n or 1
    if num_tried < num_wanted:
        raise InvalidRequest(
            f"best_of is {num_tried}, but n asks for {num_wanted}; best_of must be as large", param="best_of"
        )
    if request.stream and num_tried > num_wanted:
        raise InvalidRequest(
            "best_of cannot be streamed: which answer is best is known at the end", param="best_of"
        )
    check_stream_options(request.stream_options, stream=request.stream)
    if request.stream and request.prompt_logprobs is not None:
        raise InvalidRequest(
            "prompt_logprobs cannot be streamed; set stream to false", param="prompt_logprobs"
        )
    return request


def num_candidates(request: schema.CompletionRequest) -> int:
    """Return how many answers are generated per prompt.

    `n` of them are returned.
    """
    return request.best_of or request.n or 1


def to_generation_request(request: schema.CompletionRequest) -> GenerationRequest:
    """Translate a decoded body. Raises InvalidRequest."""
    prompts = read_texts(request.prompt, "prompt")
    num_choices = num_candidates(request)
    if len(prompts) * num_choices > MAX_ANSWERS:
        message = (
            f"prompt has {len(prompts)} texts of {num_choices} answers each; a request may ask for "
            f"{MAX_ANSWERS} in all"
        )
        raise InvalidRequest(message, param="prompt")
    is_unlimited = request.max_tokens == -1
    translated = GenerationRequest(
        model=request.model,
        prompts=prompts,
        suffix=_suffix(request, prompts),
        num_choices=num_choices,
        echo=bool(request.echo),
        scores_prompt=request.prompt_logprobs is not None
        or (bool(request.echo) and request.logprobs is not None),
        max_prompt_tokens=request.truncate_prompt_tokens,
        keeps_prompt_start=request.truncation_side == "right",
        sampling=_sampling(request),
        constraint=requested_constraint(request),
        max_tokens=None if is_unlimited else request.max_tokens,
        default_max_tokens=None if is_unlimited else _DEFAULT_MAX_TOKENS,
        reports_tokens=_reports_tokens(request),
        **shared_options(request),
    )
    return with_extensions(translated, request)


def _reports_tokens(request: schema.CompletionRequest) -> bool:
    return bool(request.return_token_ids or (request.stream and counts_every_chunk(request.stream_options)))


def _suffix(request: schema.CompletionRequest, prompts: tuple[str | tuple[int, ...], ...]) -> str | None:
    if request.suffix and not all(isinstance(prompt, str) for prompt in prompts):
        raise InvalidRequest("suffix needs a prompt of text, not of token ids", param="suffix")
    return request.suffix or None


def _sampling(request: schema.CompletionRequest) -> SamplingOptions:
    # The best candidates are selected by log probability, requested or not.
    is_ranked = num_candidates(request) > (request.n or 1)
    wanted = [number for number in (request.logprobs, request.prompt_logprobs) if number is not None]
    return sampling_options(request, num_top_logprobs=max(wanted, default=0 if is_ranked else None))
