"""Guardrails on the prompts of HTTP requests."""

from mlxctl.errors import GuardrailMatched
from mlxctl.inference.preparation import PackedRequest, PreparationPool
from mlxctl.inference.request_context import RequestContext
from mlxctl.ir.policy import GuardrailRules
from mlxctl.policy.guardrails import InputScreen, Screening


async def screen(
    packed: PackedRequest, rules: GuardrailRules, preparation: PreparationPool, record: RequestContext
) -> PackedRequest:
    """Return the request as the guardrails leave it. Raises GuardrailMatched, InvalidRequest."""
    try:
        # A regular expression of the operator may take long on a text that a caller chooses.
        found: Screening = await preparation.call(
            InputScreen(rules).screen, packed, num_bytes=packed.num_bytes, is_slow=True
        )
    except GuardrailMatched:
        record.record_guardrail("refused")
        raise
    if found.verdict is not None:
        record.record_guardrail(found.verdict)
    return packed if found.request is None else PackedRequest.of(found.request)
