"""JSON representations of models, fits and downloads.

Sizes are in bytes, lengths in tokens; unknown values are null. Paths of this machine are left out: clients
need not know them.
"""

from msgspec import Struct

from mlxctl.models.description import ModelDescription
from mlxctl.models.downloads import Download, DownloadState
from mlxctl.models.fit import SPEED_FORMULA, Fit


class ModelView(Struct, frozen=True, kw_only=True):
    """A model as JSON; `probed`: the store has probe results for it."""

    name: str
    kind: str
    family: str | None
    evidence: tuple[str, ...]
    model_type: str | None
    runtimes: tuple[str, ...] | None
    disk_bytes: int
    weights_bytes: int | None
    num_parameters: int | None
    bits: int | None
    quantization: str | None
    bits_per_weight: float | None
    context_length: int | None
    dimensions: int | None
    has_chat_template: bool
    template_takes_tools: bool
    kv_bytes_per_token: int | None
    kv_window_bytes_per_token: int | None
    kv_window_tokens: int | None
    state_bytes: int | None
    problem: str | None
    probed: bool

    @classmethod
    def of(cls, model: ModelDescription, *, is_probed: bool) -> "ModelView":
        weights, packing, cache = model.weights, model.quantization, model.cache
        return cls(
            name=model.name,
            kind=model.detection.kind,
            family=model.detection.family,
            evidence=model.detection.evidence,
            model_type=model.model_type,
            runtimes=model.runtimes,
            disk_bytes=model.disk_bytes,
            weights_bytes=weights.num_bytes if weights else None,
            num_parameters=weights.num_parameters if weights else None,
            bits=packing.bits if packing else None,
            quantization=packing.label if packing else None,
            bits_per_weight=round(weights.bits_per_weight, 2) if weights else None,
            context_length=model.context_length,
            dimensions=model.dimensions,
            has_chat_template=model.has_template,
            template_takes_tools=model.takes_tools,
            kv_bytes_per_token=cache.bytes_per_token if cache else None,
            kv_window_bytes_per_token=cache.window_bytes_per_token if cache else None,
            kv_window_tokens=cache.window_tokens if cache else None,
            state_bytes=cache.state_bytes if cache else None,
            problem=model.problem,
            probed=is_probed,
        )


class FitView(Struct, frozen=True, kw_only=True):
    """How a model fits a machine, as JSON.

    Only name and problem for a model whose weights cannot be read.
    """

    model: str
    problem: str | None
    fits: bool | None = None
    machine: str | None = None
    memory_bytes: int | None = None
    usable_bytes: int | None = None
    usable_is_exact: bool | None = None
    context_tokens: int | None = None
    weights_bytes: int | None = None
    cache_bytes: int | None = None
    transient_bytes_estimate: int | None = None
    needed_bytes: int | None = None
    max_context_tokens: int | None = None
    predicted_tokens_per_second_at_most: float | None = None
    prediction: str = SPEED_FORMULA

    @classmethod
    def of(cls, name: str, fit: Fit, *, problem: str | None = None) -> "FitView":
        machine, speed = fit.machine, fit.predicted_tokens_per_second
        return cls(
            model=name,
            problem=problem,
            fits=fit.fits,
            machine=machine.chip,
            memory_bytes=machine.memory_bytes,
            usable_bytes=machine.usable_bytes,
            usable_is_exact=machine.is_exact,
            context_tokens=fit.context_tokens,
            weights_bytes=fit.weights_bytes,
            cache_bytes=fit.cache_bytes,
            transient_bytes_estimate=fit.transient_bytes,
            needed_bytes=fit.needed_bytes,
            max_context_tokens=fit.max_context_tokens,
            predicted_tokens_per_second_at_most=None if speed is None else round(speed, 1),
        )


class DownloadView(Struct, frozen=True, kw_only=True):
    """A download as JSON; `error` is one line."""

    repo: str
    state: DownloadState
    num_bytes: int
    num_bytes_total: int | None
    error: str | None

    @classmethod
    def of(cls, download: Download) -> "DownloadView":
        return cls(
            repo=download.repository,
            state=download.state,
            num_bytes=download.num_bytes,
            num_bytes_total=download.num_bytes_total,
            error=download.error,
        )
