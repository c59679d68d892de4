"""What `mlxctl probe` has to tell. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.models.knowledge import ProbedModel

NOTHING = ProbedModel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of one model, or in `problem` why nothing is. `was_known` says that it was not asked now.

    `phases` are the seconds that each part of asking took.
    """

    name: str
    known: ProbedModel = NOTHING
    problem: str | None = None
    was_known: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All of them, in the order of the names; `was_stopped` says that a person broke off."""

    answers: tuple[Answer, ...]
    was_stopped: bool = False
