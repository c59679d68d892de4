"""What came of probing one model. Pure value."""

from dataclasses import dataclass

from mlxctl.models import NamedDirectory
from mlxctl.stores import ProbeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """What is known of the model now, or in `problem`, one line, why it cannot be asked.

    `name` is what it was called, `directory` what that stands for. `was_known` says that nothing had to be asked.
    """

    name: str
    directory: NamedDirectory | None = None
    record: ProbeRecord | None = None
    was_known: bool = False
    problem: str | None = None
