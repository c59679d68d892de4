"""GET and PATCH /admin/scheduler: the scheduler's settings while the server runs."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.inference import InferenceService
from mlxctl.server.resources.operation.live_settings import LiveSettingsResource


class SchedulerState(Struct, kw_only=True):
    """The settings in force, until the restart of the server."""

    max_rows: int
    max_queue: int
    target_gap_ms: float | None
    target_ttft_ms: float
    enable_preemption: bool
    high_priority_threshold: int
    max_timeslice_tokens: int
    aging_seconds: float
    share_rows: bool


class SchedulerChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; the others stay.

    They take effect at the next step.
    """

    max_rows: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    max_queue: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    target_gap_ms: Annotated[float, Meta(ge=1)] | UnsetType | None = UNSET
    target_ttft_ms: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    enable_preemption: bool | UnsetType = UNSET
    high_priority_threshold: Annotated[int, Meta(ge=-100, le=100)] | UnsetType = UNSET
    max_timeslice_tokens: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    aging_seconds: Annotated[float, Meta(ge=0.001)] | UnsetType = UNSET
    share_rows: bool | UnsetType = UNSET


class SchedulerResource(LiveSettingsResource):
    """GET and PATCH /admin/scheduler."""

    def __init__(self, inference: InferenceService) -> None:
        super().__init__(inference, SchedulerChange)

    def state(self) -> SchedulerState:
        policy = msgspec.structs.asdict(self._inference.scheduler_policy)
        return SchedulerState(**policy, max_queue=self._inference.max_queue)

    def change(self, values: dict[str, Any]) -> None:
        max_queue = values.pop("max_queue", None)
        policy = msgspec.structs.replace(self._inference.scheduler_policy, **values)
        self._inference.configure_scheduler(policy, max_queue=max_queue)
