"""GET and PATCH /admin/scheduler: the scheduler's settings while the server runs."""

from typing import Annotated

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.errors import InvalidRequest
from mlxctl.inference import InferenceService
from mlxctl.server.body import read_json

_MAX_BODY_BYTES = 64 * 1024


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


_CHANGES = msgspec.json.Decoder(SchedulerChange)


class SchedulerResource:
    """GET and PATCH /admin/scheduler."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the settings in force."""
        self._answer(response)

    on_head = on_get

    async def on_patch(self, request: Request, response: Response) -> None:
        """Change settings. Raises InvalidRequest, also when nothing is named."""
        change = await read_json(request, _CHANGES, limit_bytes=_MAX_BODY_BYTES)
        values = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
        if not values:
            raise InvalidRequest(f"name a setting to change: {', '.join(SchedulerChange.__struct_fields__)}")
        max_queue = values.pop("max_queue", None)
        policy = msgspec.structs.replace(self._inference.scheduler_policy, **values)
        self._inference.configure_scheduler(policy, max_queue=max_queue)
        self._answer(response)

    def _answer(self, response: Response) -> None:
        policy = msgspec.structs.asdict(self._inference.scheduler_policy)
        state = SchedulerState(**policy, max_queue=self._inference.max_queue)
        response.data = msgspec.json.encode(state)
        response.content_type = falcon.MEDIA_JSON
