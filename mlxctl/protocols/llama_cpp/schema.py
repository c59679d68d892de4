"""Bodies and answers of llama.cpp's `/completion` and `/infill`."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.protocols.openai.text_inputs import TokenId
from mlxctl.protocols.ranges import Name, RepetitionPenalty, StopStrings
from mlxctl.protocols.structured_output import StructuredOutputFields

NumPredict = Annotated[int, Meta(ge=-2)]


class LlamaRequest(StructuredOutputFields, kw_only=True):
    """Fields of both routes, besides sampling and structured output.

    `n_predict` -1 means no limit, 0 prefill only. Without a `model`, the first one answers.
    """

    model: Name | None = None
    n_predict: NumPredict | None = None
    repeat_penalty: RepetitionPenalty | None = None
    json_schema: dict[str, Any] | None = None
    stop: StopStrings | None = None
    stream: bool | None = None
    n_probs: int | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None


class LlamaCompletionRequest(LlamaRequest, kw_only=True):
    """Body of a request to `/completion`."""

    prompt: str | list[TokenId]


class ExtraFile(Struct):
    """Text of another file."""

    text: str
    filename: str | None = None


class LlamaInfillRequest(LlamaRequest, kw_only=True):
    """Body of `/infill`: the answer is the text between prefix and suffix.

    `prompt` follows the prefix; `input_extra` precedes it.
    """

    input_prefix: str
    input_suffix: str
    prompt: str | None = None
    input_extra: Annotated[list[ExtraFile], Meta(max_length=256)] | None = None


class LlamaTimings(Struct, kw_only=True):
    """Times in milliseconds and numbers of tokens.

    `cache_n` tokens came from the prefix cache. The model verified `draft_n` draft tokens and accepted
    `draft_n_accepted` of them; both are absent without speculative decoding.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | UnsetType = UNSET
    draft_n_accepted: int | UnsetType = UNSET


class LlamaCompletion(Struct, kw_only=True):
    """An answer, or a piece of one; the last has the counts."""

    index: int = 0
    content: str
    stop: bool
    model: str | UnsetType = UNSET
    tokens_predicted: int | UnsetType = UNSET
    tokens_evaluated: int | UnsetType = UNSET
    tokens_cached: int | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    stop_type: Literal["eos", "limit", "word"] | UnsetType = UNSET
    stopping_word: str | UnsetType = UNSET
    timings: LlamaTimings | UnsetType = UNSET
