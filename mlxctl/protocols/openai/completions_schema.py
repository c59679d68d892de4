"""Bodies of `POST /v1/completions`, OpenAI's legacy text continuation.

With the sampling and structured output fields of other servers. Null means not set; other fields are ignored.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from mlxctl.protocols.openai.chat_answers import PromptLogprobs
from mlxctl.protocols.openai.completion_fields import CompletionFields
from mlxctl.protocols.openai.text_inputs import TextInputs
from mlxctl.protocols.openai.token_reports import TokenIds
from mlxctl.protocols.openai.usage import CompletionUsage
from mlxctl.protocols.ranges import (
    AnswerTokenLimit,
    Name,
    NumChoices,
    NumTopLogprobs,
    PromptTokenLimit,
)


class CompletionRequest(CompletionFields, kw_only=True):
    """Body of a completion.

    `prompt` is a text, a list of texts, a list of token ids, or a list of such lists. As in vLLM,
    `prompt_logprobs` adds the log-probabilities of the prompt, `return_tokens_as_token_ids` writes tokens as
    `token_id:5`, and of a longer prompt the last `truncate_prompt_tokens` are used (-1: as many as fit), with
    the `truncation_side` right the first ones. `return_token_ids` adds the ids of prompt and answer;
    `stop_token_ids` end the answer.
    """

    model: Name
    prompt: TextInputs
    best_of: NumChoices | None = None
    max_tokens: AnswerTokenLimit | None = None
    logprobs: NumTopLogprobs | None = None
    truncate_prompt_tokens: PromptTokenLimit | None = None
    truncation_side: Literal["left", "right"] | None = None
    suffix: str | None = None


class TextLogprobs(Struct):
    """Log probabilities as four parallel lists.

    The first token of an echoed prompt has none.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


TextFinishReason = Literal["stop", "length", "content_filter"]


class TextChoice(Struct):
    """One choice of a completion."""

    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: TextFinishReason
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    prompt_token_ids: TokenIds = UNSET
    token_ids: TokenIds = UNSET


class TextCompletion(Struct):
    """Body of an answer to a completions request."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[TextChoice]
    usage: CompletionUsage


class TextChunkChoice(Struct):
    """A piece of one choice."""

    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: TextFinishReason | None
    prompt_token_ids: TokenIds = UNSET
    token_ids: TokenIds = UNSET


class TextChunk(Struct):
    """A chunk of a stream.

    With `include_usage` the last one has the usage and no choice; the others have null.
    """

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[TextChunkChoice]
    usage: CompletionUsage | UnsetType | None = UNSET
