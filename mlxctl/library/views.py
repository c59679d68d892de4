"""JSON representations of models, fits and downloads.

Sizes are in bytes, lengths in tokens; unknown values are null. Paths of this machine are left out: clients
need not know them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.library.download_journal import DownloadState
from mlxctl.library.fit import SPEED_FORMULA, Fit


class _Source(NamedTuple):
    """Attributes that lead to a value, and the digits to round to."""

    names: list[str]
    digits: int | None

    def read(self, value: Any) -> Any:
        """Return the value; None where an attribute on the way is None."""
        for name in self.names:
            value = None if value is None else getattr(value, name)
        return value if value is None or self.digits is None else round(value, self.digits)


def at(path: str, *, digits: int | None = None) -> Meta:
    """Mark a field whose value is at another path of attributes."""
    return Meta(extra={"source": _Source(path.split("."), digits)})


class View(Struct, frozen=True, kw_only=True):
    """A JSON object whose fields are attributes of a value."""

    @classmethod
    def of(cls, value: Any, **given: Any) -> Self:
        """Read the fields that are not `given`."""
        sources = {name: source for name, source in _sources(cls).items() if name not in given}
        return cls(**given, **{name: source.read(value) for name, source in sources.items()})


@cache
def _sources(view: type[View]) -> Mapping[str, _Source]:
    hints = get_type_hints(view, include_extras=True)
    marked = {
        name: mark.extra["source"]
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if mark.extra
    }
    return {name: marked.get(name) or _Source([name], None) for name in view.__struct_fields__}


class ModelView(View, frozen=True, kw_only=True):
    """A model as JSON; `probed`: the store has probe results for it."""

    name: str
    kind: Annotated[str, at("detection.kind")]
    family: Annotated[str | None, at("detection.family")]
    evidence: Annotated[tuple[str, ...], at("detection.evidence")]
    model_type: str | None
    runtimes: tuple[str, ...] | None
    disk_bytes: int
    weights_bytes: Annotated[int | None, at("weights.num_bytes")]
    num_parameters: int | None
    bits: Annotated[int | None, at("quantization.bits")]
    quantization: Annotated[str | None, at("quantization_label")]
    bits_per_weight: Annotated[float | None, at("weights.bits_per_weight", digits=2)]
    context_length: int | None
    dimensions: int | None
    has_chat_template: Annotated[bool, at("has_template")]
    template_takes_tools: Annotated[bool, at("takes_tools")]
    kv_bytes_per_token: Annotated[int | None, at("cache.bytes_per_token")]
    kv_window_bytes_per_token: Annotated[int | None, at("cache.window_bytes_per_token")]
    kv_window_tokens: Annotated[int | None, at("cache.window_tokens")]
    state_bytes: Annotated[int | None, at("cache.state_bytes")]
    problem: str | None
    probed: bool
    vision: Annotated[bool, at("has_vision_tower")]
    supported: Annotated[bool, at("is_supported")]
    is_moe: Annotated[bool, at("is_mixture")]
    n_experts: Annotated[int | None, at("experts.num")]
    n_active_experts: Annotated[int | None, at("experts.num_active")]


class Assessment(View, frozen=True, kw_only=True):
    """How a model fits this machine, in short."""

    fits: bool | None
    max_safe_context: Annotated[int | None, at("max_context_tokens")]
    predicted_decode_tps: Annotated[float | None, at("predicted_tokens_per_second", digits=1)]
    measured_decode_tps: Annotated[float | None, at("measured.decode_tokens_per_second", digits=1)]


class SkuView(View, frozen=True, kw_only=True):
    """How a model fits one Apple chip with one memory size."""

    chip: Annotated[str, at("machine.chip")]
    ram_bytes: Annotated[int, at("machine.memory_bytes")]
    fits: bool | None
    max_safe_context: Annotated[int | None, at("max_context_tokens")]
    predicted_decode_tps: Annotated[float | None, at("predicted_tokens_per_second", digits=1)]


class MachineView(View, frozen=True, kw_only=True):
    """A machine's chip, memory and memory bandwidth."""

    chip: str | None
    ram_bytes: Annotated[int, at("memory_bytes")]
    bandwidth_gbs: Annotated[float | None, at("gigabytes_per_second", digits=1)]


class FitReport(View, frozen=True, kw_only=True):
    """Memory, longest context, and predicted speed at `context_tokens`."""

    fits: bool | None
    weights_bytes: int
    kv_bytes: Annotated[int | None, at("cache_bytes")]
    prefix_bytes: int | None
    transient_bytes: int | None
    total_bytes: Annotated[int | None, at("needed_bytes")]
    usable_bytes: Annotated[int, at("machine.usable_bytes")]
    max_safe_context: Annotated[int | None, at("max_context_tokens")]
    predicted_decode_tps: Annotated[float | None, at("predicted_tokens_per_second", digits=1)]


class FitView(View, frozen=True, kw_only=True):
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
    memory_bytes: Annotated[int | None, at("machine.memory_bytes")] = None
    usable_bytes: Annotated[int | None, at("machine.usable_bytes")] = None
    usable_is_exact: Annotated[bool | None, at("machine.is_exact")] = None
    context_tokens: int | None = None
    weights_bytes: int | None = None
    cache_bytes: int | None = None
    prefix_bytes: int | None = None
    transient_bytes_estimate: Annotated[int | None, at("transient_bytes")] = None
    needed_bytes: int | None = None
    max_context_tokens: int | None = None
    bandwidth_gbs: Annotated[float | None, at("machine.gigabytes_per_second", digits=1)] = None
    typical_context_tokens: int | None = None
    typical_decode_tps: Annotated[float | None, at("typical_tokens_per_second", digits=1)] = None
    predicted_tokens_per_second_at_most: Annotated[
        float | None, at("predicted_tokens_per_second", digits=1)
    ] = None
    prediction: str = SPEED_FORMULA
    measured_decode_tps: Annotated[float | None, at("measured.decode_tokens_per_second", digits=1)] = None
    measured_prefill_tps: Annotated[float | None, at("measured.prompt_tokens_per_second", digits=1)] = None
    measured_at: Annotated[float | None, at("measured.measured_at")] = None
    slow_because: str | None = None
    sku_matrix_ctx: int | UnsetType = UNSET
    sku_matrix: tuple[SkuView, ...] | UnsetType = UNSET

    @classmethod
    def named(
        cls, name: str, fit: Fit, *, problem: str | None = None, macs: Sequence[Fit] | None = None
    ) -> "FitView":
        """Return the fit of the model `name`, with those on `macs`."""
        return cls.of(
            fit,
            model=name,
            problem=problem,
            machine=MachineView.of(fit.machine),
            report=FitReport.of(fit),
            prediction=SPEED_FORMULA,
            sku_matrix_ctx=macs[0].context_tokens if macs else UNSET,
            sku_matrix=UNSET if macs is None else tuple(map(SkuView.of, macs)),
        )


class DownloadView(View, frozen=True, kw_only=True):
    """A download as JSON; `error` is one line.

    `current_file` is the first missing file by name; several are downloaded at once. `bytes_per_sec` is the
    rate of the last five seconds; times are unix seconds. `pid` is the process that downloads: a server, or
    `mlxctl models pull`. `probe` is the state of probing the model after the download, null if it was not
    requested. `repo_id`, `received_bytes` and `total_bytes` are other names of `repo`, `num_bytes` and
    `num_bytes_total`.
    """

    repo: Annotated[str, at("repository")]
    repo_id: Annotated[str, at("repository")]
    state: DownloadState
    num_bytes: int
    num_bytes_total: int | None
    received_bytes: Annotated[int, at("num_bytes")]
    total_bytes: Annotated[int | None, at("num_bytes_total")]
    files_done: Annotated[int, at("num_files")]
    files_total: Annotated[int | None, at("num_files_total")]
    current_file: str | None
    bytes_per_sec: Annotated[float, at("bytes_per_second", digits=1)]
    started_at: float | None
    finished_at: Annotated[float | None, at("ended_at")]
    error: str | None
    probe: DownloadState | None
    probe_error: str | None
    pid: int
