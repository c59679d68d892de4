"""Test of structured output: by prompt alone, and with constrained decoding."""

import json
from dataclasses import replace

from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    ModelCapabilities,
    ProbeVerdict,
    ThinkingOptions,
    text_message,
)
from mlxctl.probe.interview import GREEDY, Interview, ProbeTranscript
from mlxctl.probe.questions import SCHEMA, SCHEMA_QUESTION, fits_schema
from mlxctl.state.stores import Finding

_MAX_TOKENS = 256
_CONSTRAINT = Constraint(kind="json_schema", value=SCHEMA, param="response_format", is_strict=True)


async def check_schema(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask in both ways.

    Constrained decoding decides; the prompt alone is reported beside it.
    """
    adapter = interview.adapter(known)
    request = GenerationRequest(
        model=interview.model,
        messages=(
            text_message(
                "user", f"{SCHEMA_QUESTION} Answer only with JSON that fits this schema: {json.dumps(SCHEMA)}"
            ),
        ),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=False),
        max_tokens=_MAX_TOKENS,
    )
    constrained = await interview.ask(adapter, replace(request, constraint=_CONSTRAINT))
    with_tools = await interview.ask(adapter, request)
    verdict, reason = _judge(constrained)
    alone = (
        "and also from a prompt alone" if fits_schema(with_tools.result.text) else "not from a prompt alone"
    )
    return (
        Finding(
            question="structured_output",
            verdict=verdict,
            reason=f"{reason}; {alone}",
            value={"schema": SCHEMA},
            exchanges=(constrained.evidence(), with_tools.evidence()),
        ),
    )


def _judge(constrained: ProbeTranscript) -> tuple[ProbeVerdict, str]:
    if fits_schema(constrained.result.text):
        return "yes", "with constrained decoding"
    if constrained.is_cut_off:
        return "unknown", f"with constrained decoding, the answer did not end within {_MAX_TOKENS} tokens"
    return "no", "not even with constrained decoding"
