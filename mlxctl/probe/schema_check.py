"""Whether a model keeps to a JSON schema when it is asked to."""

import json

from mlxctl.ir import GenerationRequest, ModelCapabilities, ThinkingOptions, text_message
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import SCHEMA, SCHEMA_QUESTION, fits_schema
from mlxctl.stores import Finding

_MAX_TOKENS = 256


async def check_schema(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask for JSON in words, with nothing that would hold the model to it, and read the whole answer."""
    request = GenerationRequest(
        model=interview.model,
        messages=(text_message("user", f"{SCHEMA_QUESTION} Answer only with JSON that fits this schema: {json.dumps(SCHEMA)}"),),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=False),
        max_tokens=_MAX_TOKENS,
    )
    transcript = await interview.ask(interview.adapter(known), request)
    fits = fits_schema(transcript.result.text)
    return (
        Finding(
            question="structured_output",
            verdict="yes" if fits else "no",
            reason=f"asked in words alone, it {'kept' if fits else 'did not keep'} to the schema",
            value={"schema": SCHEMA},
            exchanges=(transcript.evidence(),),
        ),
    )
