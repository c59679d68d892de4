"""Generation requests, the same for every protocol. Pure values.

No wire names and no tokens.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mlxctl.ir.constraints import Constraint
from mlxctl.ir.context_edits import ContextEdit
from mlxctl.ir.lora import LoraChoice
from mlxctl.ir.messages import Message
from mlxctl.ir.tokens import namespace_within


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Definition of a tool that the model may call.

    `parameters` is the JSON schema of its arguments object, at the request's field `param`. Arguments of a
    tool that `is_strict` always match the schema. `text_pattern` is the regular expression at `param` that
    the schema was made of, for a tool that takes one text.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_strict: bool = False
    text_pattern: str = ""
    param: str = field(default="tools", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the model may, must not or must call.

    `named` forces the tool `name`.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None

    @property
    def is_forced(self) -> bool:
        """Whether the answer has to be a tool call."""
        return self.mode in ("required", "named")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingOptions:
    """The request's thinking options; None means the model's default.

    `max_tokens` is the maximum length of thinking.
    """

    enabled: bool | None = None
    effort: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToneCurve:
    """The tone curve that replaces a plain temperature (Hybrid Log-Gamma).

    Its slope is 1/temperature within `width` of the pivot, which lies `pivot_offset` below the likeliest
    token, and softer beyond. All in nats, all positive.
    """

    width: float = 4.0
    shoulder: float = 4.0
    toe: float = 6.0
    pivot_offset: float = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToneCurveOptions:
    """Tone curve options of a request or the server; None means unset."""

    enabled: bool | None = None
    width: float | None = None
    shoulder: float | None = None
    toe: float | None = None
    pivot_offset: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """The DRY penalty (p-e-w 2024).

    A token that would continue a repetition of at least `allowed_length` tokens loses multiplier * base **
    (length - allowed_length) nats. The last `num_last` tokens of prompt and answer count; a token that
    contains one of `breakers` interrupts a repetition.
    """

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    num_last: int = 1024
    breakers: tuple[str, ...] = ("\n", ":", '"', "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """The request's sampling options; None means the model's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    num_top_logprobs: int | None = None
    typical_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    min_tokens: int | None = None
    tone_curve: ToneCurveOptions | None = None
    repetition: Repetition | None = None
    speculation: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling with every value final.

    Order of application: penalties (presence and frequency over generated tokens only, repetition over the
    prompt too), DRY, logit_bias, min_tokens, temperature or tone curve, top_k, top_p, min_p, typical_p, xtc,
    draw. `temperature` 0 is greedy. `top_k` 0, `top_p` 1, `min_p` 0, `typical_p` 1 and `xtc_probability` 0
    are off; penalties are off at 1 (repetition) and 0. Before `min_tokens` no stop token is drawn.
    `repetition_breaker_ids` are the tokens that interrupt every repetition. `num_top_logprobs` None requests
    no log-probabilities, 0 the chosen token's, n the n most likely besides. `speculation` False decodes
    without drafts, which changes no token.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    num_top_logprobs: int | None = None
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    min_tokens: int = 0
    tone_curve: ToneCurve | None = None
    repetition: Repetition | None = None
    repetition_breaker_ids: tuple[int, ...] = ()
    speculation: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """How long the model stays loaded without requests.

    `seconds` None is for ever. With `new_only` only a model that this request loads.
    """

    seconds: float | None
    new_only: bool = False


CacheMode = Literal["full", "prefix", "off"]

ContextOverflow = Literal["error", "drop_oldest", "compact"]
"""`drop_oldest` leaves out the oldest turns; `compact` first the details of earlier turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBreakpoint:
    """The start of a conversation that has a longer cache TTL.

    It covers `num_messages` messages, the last one without its last `num_excluded_parts` parts; with no
    messages it covers `num_tools` tools.
    """

    ttl_seconds: float
    num_tools: int
    num_messages: int = 0
    num_excluded_parts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How a request uses the prefix cache.

    `full`: matched tokens are restored, prompt and answer are stored. `prefix`: the same, but the answer is
    not stored. `off`: nothing is restored or stored. `ttl_seconds` is how long the request's entries stay
    after it, None as long as there is room; a longer TTL of another request stays. The tokens up to the
    breakpoint `long_ttl` have a separate TTL. Requests share prefixes only within the same `namespace`, a
    digest that the server derives from the caller and from `salt`, the request's own text; empty is the
    namespace of callers without a key. `adapters_digest` covers the request's LoRA adapters and their scales,
    which separate prefixes in the same way. `session_id` names the conversation that a request belongs to:
    cache misses are explained by comparison within it.
    """

    mode: CacheMode = "full"
    ttl_seconds: float | None = None
    long_ttl: CacheBreakpoint | None = None
    salt: str = ""
    namespace: bytes = b""
    adapters_digest: bytes = b""
    session_id: str | None = None

    @property
    def prefix_namespace(self) -> bytes:
        """The namespace of the request's prefixes: the caller's, and the LoRA adapters'."""
        if not self.adapters_digest:
            return self.namespace
        digest = hashlib.sha256(self.adapters_digest + self.namespace).digest()
        return namespace_within(self.namespace, digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """Everything about one generation, independent of the protocol.

    `max_tokens` None means up to the context length, 0 means prefill only. `template_kwargs` go to the chat
    template unchanged. Lower `priority` goes first, None means that the request sets none.

    `prompts`, texts or token ids, are continued as they are, without a chat template and without tools or
    thinking; a request has either them or `messages`. `num_choices` is the number of answers to each prompt.
    Of a longer prompt than `max_prompt_tokens` the last tokens are used, with `keeps_prompt_start` the first;
    -1 leaves room for `max_tokens`. With `echo` an answer begins with its prompt, and with `scores_prompt`
    with the log-probabilities of its prompt. `constraint` is the structured output of the visible answer;
    forced calls are constrained by their tools. `context_edits` shorten the conversation, in this order.
    `context_overflow` decides about one that is still longer than the model's context or
    `max_context_tokens`; None is an error, unless a header decides. With `ignore_eos` an answer continues
    past the model's stop tokens: it ends at `max_tokens`, a stop string or one of `stop_token_ids`. Where
    neither the request nor the server sets `max_tokens`, it is `default_max_tokens`. With
    `reports_tokens` the events of a model of this machine have token ids; with `returns_token_ids` the client
    gets them. `adapters` are LoRA adapters; None leaves the choice to the model's name.

    With a `suffix`, the request's field `suffix_param`, the answers are the text between each prompt and the
    suffix (fill in the middle). With
    `continues_answer` the last message is the start of the answer, which the model continues. Without
    `opens_answer` the prompt has no header of an answer.
    """

    model: str
    messages: tuple[Message, ...] = ()
    continues_answer: bool = False
    opens_answer: bool = True
    prompts: tuple[str | tuple[int, ...], ...] = ()
    max_prompt_tokens: int | None = None
    keeps_prompt_start: bool = False
    suffix: str | None = None
    suffix_param: str = "suffix"
    num_choices: int = 1
    echo: bool = False
    scores_prompt: bool = False
    context_edits: tuple[ContextEdit, ...] = ()
    context_overflow: ContextOverflow | None = None
    max_context_tokens: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    sampling: SamplingOptions = SamplingOptions()
    thinking: ThinkingOptions = ThinkingOptions()
    constraint: Constraint | None = None
    max_tokens: int | None = None
    default_max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    reports_tokens: bool = False
    returns_token_ids: bool = False
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    priority: int | None = None
    cache: CacheOptions = CacheOptions()
    adapters: tuple[LoraChoice, ...] | None = None
    keep_alive: KeepAlive | None = None
