"""What `mlxctl probe` has to tell. Pure values."""

from dataclasses import dataclass

from mlxctl.models.knowledge import KnownModel

NOTHING = KnownModel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of one model, or in `problem` why nothing is. `was_known` says that it was not asked now."""

    name: str
    known: KnownModel = NOTHING
    problem: str | None = None
    was_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All of them, in the order of the names; `was_stopped` says that a person broke off."""

    answers: tuple[Answer, ...]
    was_stopped: bool = False
