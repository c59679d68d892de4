"""Prompts in the form that the engine takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from mlxctl.formats.adapters.tokens.encoded_segments import OpenSegment
from mlxctl.ir import AppliedEdit, GenerationRequest, Guidance, ProcessedImage, SamplingParams

NormalizedRequest = NewType("NormalizedRequest", GenerationRequest)
"""A request with the options that hold for all requests; `ModelAdapter.normalized` makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """A prompt as token ids; `images` are those it contains."""

    token_ids: tuple[int, ...]
    images: tuple[ProcessedImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedInput:
    """A prompt as token ids, with everything final about its continuation.

    `max_tokens` fits into what the prompt leaves of the context. `prompt_tail` is the marker, and what
    follows it, that the prompt ends with and the model continues (opened thinking, a forced call); it decides
    how the answer's first token is parsed. `echo` is the prompt as text when the answer has to begin with it.
    `opened` is the text segment that the answer continues. `guidance` constrains the answer. `images` are
    those whose tokens are in the prompt. The first `num_long_ttl_tokens` are cached with a longer TTL than
    the rest. `num_dropped_messages` did not fit into the context; `applied_edits` removed parts of the
    conversation before.
    """

    token_ids: Sequence[int]
    sampling: SamplingParams
    stop_token_ids: frozenset[int]
    max_tokens: int
    prompt_tail: str = ""
    echo: str = ""
    opened: OpenSegment | None = None
    guidance: Guidance | None = None
    images: tuple[ProcessedImage, ...] = ()
    num_long_ttl_tokens: int = 0
    num_dropped_messages: int = 0
    applied_edits: tuple[AppliedEdit, ...] = ()
