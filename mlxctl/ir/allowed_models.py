"""Which models a caller may use."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self


@dataclass(frozen=True, slots=True)
class AllowedModels:
    """Models whose own name matches one of the `globs`.

    None is every model. Where models are looked up, listed or named in a text, it is an argument without a
    default.
    """

    globs: tuple[str, ...] | None

    @classmethod
    def of_key(cls, globs: Sequence[str]) -> Self:
        """Return the models of a key; no globs allow every model."""
        return cls(tuple(globs) or None)

    def __contains__(self, own_name: str) -> bool:
        return self.globs is None or any(fnmatchcase(own_name, glob) for glob in self.globs)


EVERY_MODEL = AllowedModels(None)
"""For the operator, and for what is the same for all callers."""

NO_MODEL = AllowedModels(())
