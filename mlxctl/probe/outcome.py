"""What came of probing one model. Pure value."""

from dataclasses import dataclass

from mlxctl.stores import ProbeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """What is known of the model now, or in `problem`, one line, why it cannot be asked.

    `was_known` says that nothing had to be asked.
    """

    name: str
    record: ProbeRecord | None = None
    was_known: bool = False
    problem: str | None = None
