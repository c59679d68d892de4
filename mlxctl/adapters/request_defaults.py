"""Server-wide options that are applied to every request. Pure values."""

from dataclasses import dataclass

from mlxctl.ir import ToneCurveOptions

NO_TONE_CURVE = ToneCurveOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """Options for all requests.

    With `strips_agent_headers`, prompts go without lines that agents change for each call. `tone_curve` holds
    for requests that set none.
    """

    strips_agent_headers: bool = False
    tone_curve: ToneCurveOptions = NO_TONE_CURVE
