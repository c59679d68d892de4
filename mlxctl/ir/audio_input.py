"""How audio of a prompt is preprocessed. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioRecipe:
    """How a model's audio is preprocessed, by the rules of its `family`.

    `sizes` are the family's numbers, by their names in the models' files.
    """

    family: str
    audio_token_id: int
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def cell_token_ids(self) -> tuple[int, ...]:
        """The tokens that stand for cells."""
        return (self.audio_token_id,)
