"""Whether a model keeps to a JSON schema: asked in words alone, and held to it by the engine as
`response_format` does.
"""

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
from mlxctl.stores import Finding

_MAX_TOKENS = 256
_CONSTRAINT = Constraint(kind="json_schema", value=SCHEMA, param="response_format", is_strict=True)


async def check_schema(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask in both ways and read the whole answers; how it is served decides, and what words alone do is told
    beside it.
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
    held = await interview.ask(adapter, replace(request, constraint=_CONSTRAINT))
    asked = await interview.ask(adapter, request)
    verdict, reason = _judge(held)
    alone = "and also from a prompt alone" if fits_schema(asked.result.text) else "not from a prompt alone"
    return (
        Finding(
            question="structured_output",
            verdict=verdict,
            reason=f"{reason}; {alone}",
            value={"schema": SCHEMA},
            exchanges=(held.evidence(), asked.evidence()),
        ),
    )


def _judge(held: ProbeTranscript) -> tuple[ProbeVerdict, str]:
    if fits_schema(held.result.text):
        return "yes", "with constrained decoding"
    if held.is_cut_off:
        return "unknown", f"with constrained decoding, the answer did not end within {_MAX_TOKENS} tokens"
    return "no", "not even with constrained decoding"
