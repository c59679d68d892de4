"""JSON representations of models, fits and downloads.

Sizes are in bytes, lengths in tokens; unknown values are null. Paths of this machine are left out: clients
need not know them.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from mlxctl.library.description import ModelDescription
from mlxctl.library.download_journal import Download, DownloadState
from mlxctl.library.fit import SPEED_FORMULA, Fit
from mlxctl.library.machine import Machine


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
    vision: bool
    supported: bool
    is_moe: bool
    n_experts: int | None
    n_active_experts: int | None

    @classmethod
    def of(cls, model: ModelDescription, *, is_probed: bool) -> "ModelView":
        weights, packing, cache = model.weights, model.quantization, model.cache
        experts = model.experts
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
            vision=bool(weights and weights.has_vision_tower),
            supported=model.problem is None and bool(model.runtimes),
            is_moe=experts is not None,
            n_experts=experts[0] if experts else None,
            n_active_experts=experts[1] if experts else None,
        )


class Assessment(Struct, frozen=True, kw_only=True):
    """How a model fits this machine, in short."""

    fits: bool | None
    max_safe_context: int | None
    predicted_decode_tps: float | None
    measured_decode_tps: float | None

    @classmethod
    def of(cls, fit: Fit) -> "Assessment":
        return cls(
            fits=fit.fits,
            max_safe_context=fit.max_context_tokens,
            predicted_decode_tps=_rounded(fit.predicted_tokens_per_second),
            measured_decode_tps=_rounded(fit.measured.decode_tokens_per_second) if fit.measured else None,
        )


class SkuView(Struct, frozen=True, kw_only=True):
    """How a model fits one Apple chip with one memory size."""

    chip: str
    ram_bytes: int
    fits: bool | None
    max_safe_context: int | None
    predicted_decode_tps: float | None

    @classmethod
    def of(cls, fit: Fit) -> "SkuView":
        return cls(
            chip=fit.machine.chip or "",
            ram_bytes=fit.machine.memory_bytes,
            fits=fit.fits,
            max_safe_context=fit.max_context_tokens,
            predicted_decode_tps=_rounded(fit.predicted_tokens_per_second),
        )


class MachineView(Struct, frozen=True, kw_only=True):
    """A machine's chip, memory and memory bandwidth."""

    chip: str | None
    ram_bytes: int
    bandwidth_gbs: float | None

    @classmethod
    def of(cls, machine: Machine) -> "MachineView":
        bandwidth = machine.bandwidth_bytes_per_second
        return cls(
            chip=machine.chip,
            ram_bytes=machine.memory_bytes,
            bandwidth_gbs=None if bandwidth is None else round(bandwidth / 1e9, 1),
        )


class FitReport(Struct, frozen=True, kw_only=True):
    """Memory, longest context, and predicted speed at `context_tokens`."""

    fits: bool | None
    weights_bytes: int
    kv_bytes: int | None
    prefix_bytes: int | None
    transient_bytes: int | None
    total_bytes: int | None
    usable_bytes: int
    max_safe_context: int | None
    predicted_decode_tps: float | None

    @classmethod
    def of(cls, fit: Fit) -> "FitReport":
        return cls(
            fits=fit.fits,
            weights_bytes=fit.weights_bytes,
            kv_bytes=fit.cache_bytes,
            prefix_bytes=fit.prefix_bytes,
            transient_bytes=fit.transient_bytes,
            total_bytes=fit.needed_bytes,
            usable_bytes=fit.machine.usable_bytes,
            max_safe_context=fit.max_context_tokens,
            predicted_decode_tps=_rounded(fit.predicted_tokens_per_second),
        )


class FitView(Struct, frozen=True, kw_only=True):
    """How a model fits a machine, as JSON.

    Only name and problem for a model whose weights cannot be read. `measured_decode_tps` is the speed of one
    stream that `mlxctl bench throughput` measured here. `typical_decode_tps` is that, or else the prediction
    at `typical_context_tokens`: 8192, or fewer where no more fit. `slow_because` is why this machine is too
    slow for it, null where it is not. `sku_matrix` is there only on request.
    """

    model: str
    problem: str | None
    fits: bool | None = None
    machine: MachineView | None = None
    report: FitReport | None = None
    memory_bytes: int | None = None
    usable_bytes: int | None = None
    usable_is_exact: bool | None = None
    context_tokens: int | None = None
    weights_bytes: int | None = None
    cache_bytes: int | None = None
    prefix_bytes: int | None = None
    transient_bytes_estimate: int | None = None
    needed_bytes: int | None = None
    max_context_tokens: int | None = None
    bandwidth_gbs: float | None = None
    typical_context_tokens: int | None = None
    typical_decode_tps: float | None = None
    predicted_tokens_per_second_at_most: float | None = None
    prediction: str = SPEED_FORMULA
    measured_decode_tps: float | None = None
    measured_prefill_tps: float | None = None
    measured_at: float | None = None
    slow_because: str | None = None
    sku_matrix_ctx: int | UnsetType = UNSET
    sku_matrix: tuple[SkuView, ...] | UnsetType = UNSET

    @classmethod
    def of(
        cls, name: str, fit: Fit, *, problem: str | None = None, macs: Sequence[Fit] | None = None
    ) -> "FitView":
        machine, measured = MachineView.of(fit.machine), fit.measured
        measured_speed = measured.decode_tokens_per_second if measured else None
        return cls(
            model=name,
            problem=problem,
            fits=fit.fits,
            machine=machine,
            report=FitReport.of(fit),
            memory_bytes=machine.ram_bytes,
            usable_bytes=fit.machine.usable_bytes,
            usable_is_exact=fit.machine.is_exact,
            context_tokens=fit.context_tokens,
            weights_bytes=fit.weights_bytes,
            cache_bytes=fit.cache_bytes,
            prefix_bytes=fit.prefix_bytes,
            transient_bytes_estimate=fit.transient_bytes,
            needed_bytes=fit.needed_bytes,
            max_context_tokens=fit.max_context_tokens,
            bandwidth_gbs=machine.bandwidth_gbs,
            typical_context_tokens=fit.typical_context_tokens,
            typical_decode_tps=_rounded(
                fit.typical_predicted_tokens_per_second if measured_speed is None else measured_speed
            ),
            predicted_tokens_per_second_at_most=_rounded(fit.predicted_tokens_per_second),
            measured_decode_tps=_rounded(measured_speed),
            measured_prefill_tps=_rounded(measured.prompt_tokens_per_second) if measured else None,
            measured_at=measured.measured_at if measured else None,
            slow_because=fit.slow_because,
            sku_matrix_ctx=macs[0].context_tokens if macs else UNSET,
            sku_matrix=UNSET if macs is None else tuple(map(SkuView.of, macs)),
        )


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


class DownloadView(Struct, frozen=True, kw_only=True):
    """A download as JSON; `error` is one line.

    `current_file` is the first missing file by name; several are downloaded at once. `bytes_per_sec` is the
    rate of the last five seconds; times are unix seconds. `pid` is the process that downloads: a server, or
    `mlxctl models pull`. `probe` is the state of probing the model after the download, null if it was not
    requested. `repo_id`, `received_bytes` and `total_bytes` are other names of `repo`, `num_bytes` and
    `num_bytes_total`.
    """

    repo: str
    repo_id: str
    state: DownloadState
    num_bytes: int
    num_bytes_total: int | None
    received_bytes: int
    total_bytes: int | None
    files_done: int
    files_total: int | None
    current_file: str | None
    bytes_per_sec: float
    started_at: float | None
    finished_at: float | None
    error: str | None
    probe: DownloadState | None
    probe_error: str | None
    pid: int

    @classmethod
    def of(cls, download: Download) -> "DownloadView":
        return cls(
            repo=download.repository,
            repo_id=download.repository,
            state=download.state,
            num_bytes=download.num_bytes,
            num_bytes_total=download.num_bytes_total,
            received_bytes=download.num_bytes,
            total_bytes=download.num_bytes_total,
            files_done=download.num_files,
            files_total=download.num_files_total,
            current_file=download.current_file,
            bytes_per_sec=round(download.bytes_per_second, 1),
            started_at=download.started_at,
            finished_at=download.ended_at,
            error=download.error,
            probe=download.probe,
            probe_error=download.probe_error,
            pid=download.pid,
        )
