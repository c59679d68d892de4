"""Sampling fields that OpenAI's endpoints share, with those of other servers.

Combinations that cannot work are refused by name; `docs/reference/sampling.md` lists all fields.
"""

import dataclasses
from typing import Annotated, Any

from msgspec import Meta, Struct

from mlxctl.ir import Repetition, SamplingOptions, ToneCurveOptions
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.extension_fields import ExtensionFields
from mlxctl.protocols.ranges import (
    AdditivePenalty,
    LogitBias,
    MinP,
    RepetitionPenalty,
    Seed,
    Temperature,
    TopK,
    TopP,
    seed_option,
    top_k_option,
)

Probability = Annotated[float, Meta(ge=0, le=1)]
XtcThreshold = Annotated[float, Meta(gt=0, le=0.5)]
Nats = Annotated[float, Meta(gt=0, le=1000)]
MinTokens = Annotated[int, Meta(ge=0, le=1_000_000)]
ThinkingBudget = Annotated[int, Meta(ge=0)]
Breakers = Annotated[list[Annotated[str, Meta(min_length=1, max_length=40)]], Meta(max_length=32)]

# The window of DRY for `dry_penalty_last_n` -1.
_MAX_REPETITION_WINDOW = 8192


class ToneCurveFields(Struct):
    """The tone curve that replaces the temperature; `enabled` false turns it off.

    Fields that are not set come from the server's settings.
    """

    enabled: bool | None = None
    width: Nats | None = None
    shoulder: Nats | None = None
    toe: Nats | None = None
    pivot_offset: Nats | None = None


class SamplingFields(ExtensionFields, kw_only=True):
    """Base of bodies with sampling fields; null means not set."""

    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    typical_p: TopP | None = None
    xtc_probability: Probability | None = None
    xtc_threshold: XtcThreshold | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: AdditivePenalty | None = None
    frequency_penalty: AdditivePenalty | None = None
    dry_multiplier: Annotated[float, Meta(ge=0, le=100)] | None = None
    dry_base: Annotated[float, Meta(ge=1, le=10)] | None = None
    dry_allowed_length: Annotated[int, Meta(ge=1, le=1000)] | None = None
    dry_penalty_last_n: Annotated[int, Meta(ge=-1, le=_MAX_REPETITION_WINDOW)] | None = None
    dry_sequence_breakers: Breakers | None = None
    min_tokens: MinTokens | None = None
    logit_bias: LogitBias | None = None
    hlg: ToneCurveFields | None = None
    seed: Seed | None = None


# Parameters that reach SamplingOptions under their wire name.
_SAME_NAMED = {field.name for field in dataclasses.fields(SamplingOptions)} & {
    *SamplingFields.__struct_fields__
}


def sampling_options(fields: SamplingFields, *, num_top_logprobs: int | None) -> SamplingOptions:
    """Return the sampling options of a body.

    Raises InvalidRequest for combinations that cannot work.
    """
    options: dict[str, Any] = {name: getattr(fields, name) for name in _SAME_NAMED}
    options |= {"top_k": top_k_option(fields.top_k), "seed": seed_option(fields.seed)}
    return SamplingOptions(
        **options,
        tone_curve=_tone_curve(fields),
        repetition=_repetition(fields),
        num_top_logprobs=num_top_logprobs,
    )


def _tone_curve(fields: SamplingFields) -> ToneCurveOptions | None:
    curve_fields = fields.hlg
    if curve_fields is None:
        return None
    for name, is_set in (
        ("top_p", fields.top_p not in (None, 0, 1)),
        ("top_k", fields.top_k not in (None, 0, -1)),
    ):
        if is_set and curve_fields.enabled:
            message = f"{name} cannot be combined with hlg, whose toe replaces it; leave one of them out"
            raise InvalidRequest(message, param=name)
    return ToneCurveOptions(
        enabled=curve_fields.enabled,
        width=curve_fields.width,
        shoulder=curve_fields.shoulder,
        toe=curve_fields.toe,
        pivot_offset=curve_fields.pivot_offset,
    )


def _repetition(fields: SamplingFields) -> Repetition | None:
    if not fields.dry_multiplier or fields.dry_penalty_last_n == 0:
        return None
    given: dict[str, Any] = {
        "base": fields.dry_base,
        "allowed_length": fields.dry_allowed_length,
        "num_last": _MAX_REPETITION_WINDOW if fields.dry_penalty_last_n == -1 else fields.dry_penalty_last_n,
        "breakers": None if fields.dry_sequence_breakers is None else tuple(fields.dry_sequence_breakers),
    }
    return Repetition(
        multiplier=fields.dry_multiplier,
        **{name: value for name, value in given.items() if value is not None},
    )
