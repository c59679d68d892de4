"""Bodies and answers of llama.cpp's routes."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.protocols.openai.text_inputs import TokenId
from mlxctl.protocols.ranges import LogitBias, Name, NumTopLogprobs, RepetitionPenalty, StopStrings
from mlxctl.protocols.structured_output import StructuredOutputFields
from mlxctl.protocols.timings import PrefillProgress, Timings

NumPredict = Annotated[int, Meta(ge=-2)]
BiasPairs = Annotated[
    list[tuple[Annotated[int, Meta(ge=0)], Annotated[float, Meta(ge=-100, le=100)] | Literal[False]]],
    Meta(max_length=1024),
]
FieldPaths = Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=64)]


class LlamaRequest(StructuredOutputFields, kw_only=True):
    """Fields of both routes, besides sampling and structured output.

    `n_predict`, or `max_tokens`, -1 means no limit, 0 prefill only. Without a `model`, the first one answers.
    `n_probs` adds the log-probabilities of each token and of that number of others, `return_tokens` the
    token ids. `logit_bias` may be pairs of a token id and a bias; false bans the token. Of the whole answer
    and of a stream's last event only `response_fields` are written, which are paths (`timings/predicted_n`).
    A stream has timings in every event with `timings_per_token`, and the progress of the prefill with
    `return_progress`. `cache_prompt` false means `cache_mode` "off".
    """

    model: Name | None = None
    n_predict: NumPredict | None = None
    max_tokens: NumPredict | None = None
    repeat_penalty: RepetitionPenalty | None = None
    json_schema: dict[str, Any] | None = None
    stop: StopStrings | None = None
    stream: bool | None = None
    n_probs: NumTopLogprobs | None = None
    post_sampling_probs: bool | None = None
    return_tokens: bool | None = None
    response_fields: FieldPaths | None = None
    logit_bias: LogitBias | BiasPairs | None = None  # type: ignore[assignment]
    ignore_eos: bool | None = None
    timings_per_token: bool | None = None
    return_progress: bool | None = None
    cache_prompt: bool | None = None


class PromptObject(Struct):
    """A prompt as an object; `multimodal_data` is refused."""

    prompt_string: str
    multimodal_data: list[str] | None = None


LlamaPrompt = str | PromptObject | list[str | TokenId | list[TokenId] | PromptObject]


class LlamaCompletionRequest(LlamaRequest, kw_only=True):
    """Body of a request to `/completion`.

    `prompt` is a text, also as an object, token ids, or a list of them, which is answered with a list.
    """

    prompt: LlamaPrompt


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


class LlamaCandidate(Struct, kw_only=True):
    """A likely token; `bytes` is its UTF-8."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class LlamaTokenLogprob(LlamaCandidate, kw_only=True):
    """A sampled token and the likeliest ones at its position."""

    top_logprobs: list[LlamaCandidate]


class GenerationSettings(Struct, kw_only=True):
    """Final sampling values of a request."""

    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    n_predict: int
    max_tokens: int
    ignore_eos: bool
    stop: list[str]
    stream: bool
    n_probs: int


class LlamaCompletion(Struct, kw_only=True):
    """An answer, or a piece of one; the last has the counts."""

    index: int = 0
    content: str
    tokens: list[int]
    stop: bool
    completion_probabilities: list[LlamaTokenLogprob] | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    generation_settings: GenerationSettings | UnsetType = UNSET
    has_new_line: bool | UnsetType = UNSET
    model: str | UnsetType = UNSET
    tokens_predicted: int | UnsetType = UNSET
    tokens_evaluated: int | UnsetType = UNSET
    tokens_cached: int | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    stop_type: Literal["eos", "limit", "word"] | UnsetType = UNSET
    stopping_word: str | UnsetType = UNSET
    timings: Timings | UnsetType = UNSET
    prompt_progress: PrefillProgress | UnsetType = UNSET


class NextToken(Struct):
    """Progress of an answer; `n_remain` is not known."""

    has_next_token: bool
    n_decoded: int
    n_remain: int = -1


class Slot(Struct, kw_only=True):
    """A place for a request, with the figures of that request."""

    id: int
    n_ctx: int
    speculative: bool = False
    is_processing: bool = False
    id_task: int | UnsetType = UNSET
    model: str | UnsetType = UNSET
    n_prompt_tokens: int | UnsetType = UNSET
    n_prompt_tokens_processed: int | UnsetType = UNSET
    n_prompt_tokens_cache: int | UnsetType = UNSET
    next_token: list[NextToken] | UnsetType = UNSET


class LoraAdapter(Struct, kw_only=True):
    """A mounted LoRA adapter; `name` is its name in requests."""

    id: int
    name: str
    path: str
    scale: float


class GenerationDefaults(Struct):
    """Defaults of a request; `n_ctx` is the context length in tokens."""

    n_ctx: int


class Modalities(Struct):
    """What a model takes besides text."""

    vision: bool
    audio: bool


class TemplateAbilities(Struct, kw_only=True):
    """What a model's chat template can render.

    Zed offers tools to models with these flags only.
    """

    supports_tools: bool
    supports_tool_calls: bool


class ServerProperties(Struct, kw_only=True):
    """Properties of a model (llama.cpp)."""

    default_generation_settings: GenerationDefaults
    total_slots: int
    model_alias: str
    model_path: str
    chat_template: str
    chat_template_caps: TemplateAbilities
    modalities: Modalities
    build_info: str
