"""Final sampling values: the request's, then the model's, then neutral ones."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mlxctl.adapters.tone_curves import final_tone_curve
from mlxctl.errors import BrokenModel, InvalidRequest
from mlxctl.ir import ModelFacts, SamplingOptions, SamplingParams

T = TypeVar("T")

_SEED_BITS = 63
_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def sampling_defaults(facts: ModelFacts) -> SamplingOptions:
    """Return the values of generation_config.json; `do_sample: false` means greedy.

    Raises BrokenModel for values that are no numbers.
    """
    values: dict[str, Any] = {}
    for name in _DEFAULTS:
        value = facts.generation_config.get(name)
        if value is not None:
            _check_default(facts, name, value)
            values[name] = int(value) if name == "top_k" else float(value)
    if facts.generation_config.get("do_sample") is False:
        values["temperature"] = 0.0
    return SamplingOptions(**values)


def _check_default(facts: ModelFacts, name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or (name == "repetition_penalty" and value == 0):
        raise BrokenModel(
            facts.path,
            f"generation_config.json of {facts.path.name!r} has no valid number for {name}: {value!r}",
        )


def final_sampling(
    options: SamplingOptions,
    defaults: SamplingOptions,
    *,
    vocabulary_size: int,
    breaker_ids: Callable[[Sequence[str]], tuple[int, ...]],
) -> SamplingParams:
    """Return the final value of every sampling parameter.

    A `top_k` as large as the vocabulary is off; under a tone curve, top_k and top_p are off. Any integer is a
    seed, of which 63 bits count. `breaker_ids` finds the tokens that contain one of some texts. Raises
    InvalidRequest for a logit bias on a token that does not exist.
    """
    neutral = SamplingParams()
    tone_curve = final_tone_curve(options.tone_curve)
    top_k = _first(options.top_k, defaults.top_k, neutral.top_k)
    return SamplingParams(
        temperature=_first(options.temperature, defaults.temperature, neutral.temperature),
        top_p=1.0 if tone_curve else _first(options.top_p, defaults.top_p, neutral.top_p),
        top_k=top_k if 0 < top_k < vocabulary_size and not tone_curve else 0,
        min_p=_first(options.min_p, defaults.min_p, neutral.min_p),
        repetition_penalty=_first(
            options.repetition_penalty, defaults.repetition_penalty, neutral.repetition_penalty
        ),
        presence_penalty=_first(options.presence_penalty, neutral.presence_penalty),
        frequency_penalty=_first(options.frequency_penalty, neutral.frequency_penalty),
        logit_bias=_checked_bias(options.logit_bias or {}, vocabulary_size),
        seed=secrets.randbits(_SEED_BITS) if options.seed is None else options.seed % (1 << _SEED_BITS),
        num_top_logprobs=options.num_top_logprobs,
        typical_p=_first(options.typical_p, neutral.typical_p),
        xtc_probability=_first(options.xtc_probability, neutral.xtc_probability),
        xtc_threshold=_first(options.xtc_threshold, neutral.xtc_threshold),
        min_tokens=_first(options.min_tokens, neutral.min_tokens),
        tone_curve=tone_curve,
        repetition=options.repetition,
        repetition_breaker_ids=breaker_ids(options.repetition.breakers) if options.repetition else (),
    )


def _first(*values: T | None) -> T:
    """Return the first value that is set."""
    return next(value for value in values if value is not None)


def _checked_bias(logit_bias: Mapping[int, float], vocabulary_size: int) -> Mapping[int, float]:
    for token_id in logit_bias:
        if not 0 <= token_id < vocabulary_size:
            message = (
                f"logit_bias names token {token_id}, but this model's tokens are 0 to {vocabulary_size - 1}"
            )
            raise InvalidRequest(message, param=f"logit_bias.{token_id}")
    return dict(logit_bias)
