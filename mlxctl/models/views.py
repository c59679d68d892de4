"""Models, fits and downloads as plain values for JSON. Sizes are in bytes, lengths in tokens; what is not known is null."""

from typing import Any

from mlxctl.models.description import ModelDescription
from mlxctl.models.downloads import Download
from mlxctl.models.fit import SPEED_FORMULA, Fit


def model_view(model: ModelDescription) -> dict[str, Any]:
    """Return what is known of a model."""
    weights, packing, cache = model.weights, model.quantization, model.cache
    return {
        "name": model.name,
        "path": str(model.path),
        "kind": model.detection.kind,
        "family": model.detection.family,
        "evidence": list(model.detection.evidence),
        "model_type": model.model_type,
        "runtimes": None if model.runtimes is None else list(model.runtimes),
        "disk_bytes": model.disk_bytes,
        "weights_bytes": weights.num_bytes if weights else None,
        "num_parameters": weights.num_parameters if weights else None,
        "bits": packing.bits if packing else None,
        "quantization": packing.label if packing else None,
        "bits_per_weight": round(weights.bits_per_weight, 2) if weights else None,
        "context_length": model.context_length,
        "has_chat_template": model.has_template,
        "template_takes_tools": model.takes_tools,
        "kv_bytes_per_token": cache.bytes_per_token if cache else None,
        "kv_window_bytes_per_token": cache.window_bytes_per_token if cache else None,
        "kv_window_tokens": cache.window_tokens if cache else None,
        "state_bytes": cache.state_bytes if cache else None,
        "problem": model.problem,
    }


def fit_view(name: str, fit: Fit) -> dict[str, Any]:
    """Return how a model fits a machine."""
    machine, speed = fit.machine, fit.predicted_tokens_per_second
    return {
        "model": name,
        "machine": machine.chip,
        "memory_bytes": machine.memory_bytes,
        "usable_bytes": machine.usable_bytes,
        "usable_is_exact": machine.is_exact,
        "context_tokens": fit.context_tokens,
        "weights_bytes": fit.weights_bytes,
        "cache_bytes": fit.cache_bytes,
        "transient_bytes_estimate": fit.transient_bytes,
        "needed_bytes": fit.needed_bytes,
        "fits": fit.fits,
        "max_context_tokens": fit.max_context_tokens,
        "predicted_tokens_per_second_at_most": None if speed is None else round(speed, 1),
        "prediction": SPEED_FORMULA,
    }


def download_view(download: Download) -> dict[str, Any]:
    """Return how a download is."""
    return {
        "repo": download.repository,
        "state": download.state,
        "num_bytes": download.num_bytes,
        "num_bytes_total": download.num_bytes_total,
        "path": str(download.path) if download.path else None,
        "error": download.error,
    }
