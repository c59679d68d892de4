"""Tone curve options: a request's fields override the server's one by one."""

from dataclasses import fields, replace

from mlxctl.ir import SamplingOptions, ToneCurve, ToneCurveOptions

_UNSET = ToneCurveOptions()


def with_tone_curve(options: SamplingOptions, default: ToneCurveOptions) -> SamplingOptions:
    """Return the options with the server's tone curve as default.

    A request with top_p or top_k and without `enabled` gets no curve: under a curve they would do nothing.
    """
    requested = options.tone_curve or _UNSET
    cuts = options.top_p not in (None, 0, 1) or options.top_k not in (None, 0, -1)
    if requested.enabled is None and cuts:
        return replace(options, tone_curve=None)
    missing = {
        field.name: getattr(default, field.name)
        for field in fields(requested)
        if getattr(requested, field.name) is None
    }
    return replace(options, tone_curve=replace(requested, **missing))


def final_tone_curve(requested: ToneCurveOptions | None) -> ToneCurve | None:
    """Return the requested curve, None for a plain temperature."""
    if requested is None or not requested.enabled:
        return None
    names = [field.name for field in fields(ToneCurve)]
    return ToneCurve(**{name: value for name in names if (value := getattr(requested, name)) is not None})
