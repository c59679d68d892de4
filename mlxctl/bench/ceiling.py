"""The most that one stream can reach on this machine, beside what it did reach."""

from dataclasses import replace

from mlxctl.bench.result import Ceiling
from mlxctl.models import Machine, ModelDescription, fit_model


def speed_ceiling(
    model: ModelDescription,
    machine: Machine,
    *,
    context_tokens: int,
    bandwidth_bytes_per_second: float | None,
) -> Ceiling | None:
    """Return the ceiling; a bandwidth that a person gave wins over the published one.

    None when nobody knows the bandwidth.
    """
    if bandwidth_bytes_per_second is not None:
        machine = replace(machine, bandwidth_bytes_per_second=bandwidth_bytes_per_second)
    fit = fit_model(model, machine, context_tokens=context_tokens)
    if fit is None or fit.predicted_tokens_per_second is None or machine.bandwidth_bytes_per_second is None:
        return None
    return Ceiling(
        tokens_per_second=fit.predicted_tokens_per_second,
        context_tokens=context_tokens,
        bandwidth_bytes_per_second=machine.bandwidth_bytes_per_second,
        source="as given" if bandwidth_bytes_per_second is not None else f"published for {machine.chip}",
    )
