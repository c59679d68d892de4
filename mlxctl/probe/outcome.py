"""What came of probing one model. Pure value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.models import NamedDirectory
from mlxctl.stores import ProbeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """What is known of the model now, or in `problem`, one line, why it cannot be asked.

    `name` is what it was called, `directory` what that stands for. `was_known` says that nothing had to be
    asked. `phases` are the seconds that each part of asking took, in order.
    """

    name: str
    directory: NamedDirectory | None = None
    record: ProbeRecord | None = None
    was_known: bool = False
    problem: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
