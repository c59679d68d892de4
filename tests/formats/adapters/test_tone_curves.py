"""A request's tone curve options override the server's one by one."""

import pytest

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.formats.adapters.tone_curves import with_tone_curve
from mlxctl.ir import SamplingOptions, ToneCurve, ToneCurveOptions

from .requests import ask

OFF = ToneCurveOptions(enabled=False, width=3.0)
ON = ToneCurveOptions(enabled=True, width=3.0, toe=5.0)
Options = ToneCurveOptions


@pytest.mark.parametrize(
    ("option", "default", "drawn"),
    [
        (None, OFF, None),
        (None, ON, ToneCurve(width=3.0, toe=5.0)),
        (Options(enabled=False), ON, None),
        (Options(enabled=True), OFF, ToneCurve(width=3.0)),
        (Options(toe=2.0), ON, ToneCurve(width=3.0, toe=2.0)),
        (Options(toe=2.0), OFF, None),
        (Options(enabled=True, width=1.0, shoulder=2.0), ON, ToneCurve(width=1.0, shoulder=2.0, toe=5.0)),
    ],
)
def test_final_tone_curve_merges_request_and_server_options(
    qwen: ModelAdapter, option: ToneCurveOptions | None, default: ToneCurveOptions, drawn: ToneCurve | None
) -> None:
    options = with_tone_curve(SamplingOptions(tone_curve=option), default)
    assert qwen.prepare_input(ask(sampling=options)).sampling.tone_curve == drawn


@pytest.mark.parametrize("cut", [SamplingOptions(top_p=0.5), SamplingOptions(top_k=3)])
def test_top_k_or_top_p_disables_the_default_curve(qwen: ModelAdapter, cut: SamplingOptions) -> None:
    sampling = qwen.prepare_input(ask(sampling=with_tone_curve(cut, ON))).sampling
    assert sampling.tone_curve is None
    assert (sampling.top_p, sampling.top_k) == (cut.top_p or 1.0, cut.top_k or 0)


def test_neutral_top_k_and_top_p_keep_the_default_curve(qwen: ModelAdapter) -> None:
    options = with_tone_curve(SamplingOptions(top_p=1.0, top_k=-1), ON)
    assert qwen.prepare_input(ask(sampling=options)).sampling.tone_curve == ToneCurve(width=3.0, toe=5.0)
