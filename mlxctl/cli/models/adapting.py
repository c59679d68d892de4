"""How a model would be served: what its adapter finds out about its template, without the weights."""

from mlxctl.adapters import create_adapter
from mlxctl.errors import BrokenModel
from mlxctl.ir import AdapterVerdict
from mlxctl.models import ModelDescription, read_model
from mlxctl.models.knowledge import ProbedModel


def adapter_verdict(model: ModelDescription, known: ProbedModel) -> AdapterVerdict | None:
    """Return what the canary conversations show; None for a model that cannot be used or has no template."""
    if model.problem is not None or not model.has_template:
        return None
    try:
        return create_adapter(
            read_model(model.path), name=model.name, capabilities=known.capabilities
        ).verdict
    except BrokenModel:
        return None
