"""What a request has become when the engine takes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.adapters.tokens.encoded_segments import OpenSegment
from mlxctl.ir import Guidance, ProcessedImage, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """A prompt as the model sees it; `images` are those whose tokens are among its own."""

    token_ids: tuple[int, ...]
    images: tuple[ProcessedImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedInput:
    """A prompt as token ids, and everything final about how it is continued.

    `max_tokens` fits into what the prompt leaves of the context. `prompt_tail` is the marker, and what
    follows it, that the prompt ends with and the model continues (an opened thinking, a forced call); it
    decides how the answer is read from its first token. `echo` is the prompt as text when the answer has to
    begin with it, with log-probabilities if it `scores_prompt`. `opened` is the segment of a conversation's
    text that the answer continues. `guidance` is what the answer has to look like. `images` are those whose
    tokens are in the prompt. The first `num_long_ttl_tokens` are the beginning that is to be kept for longer
    than the rest.
    """

    token_ids: Sequence[int]
    sampling: SamplingParams
    stop_token_ids: frozenset[int]
    max_tokens: int
    prompt_tail: str = ""
    echo: str = ""
    scores_prompt: bool = False
    opened: OpenSegment | None = None
    guidance: Guidance | None = None
    images: tuple[ProcessedImage, ...] = ()
    num_long_ttl_tokens: int = 0
