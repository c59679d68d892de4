"""All families of language models that take audio."""

from collections.abc import Mapping

from mlxctl.formats.audio import gemma, qwen_omni
from mlxctl.formats.audio.family import AudioFamily

_FAMILIES = (gemma.GEMMA3N, gemma.GEMMA4, gemma.GEMMA4_UNIFIED, qwen_omni.FAMILY)
AUDIO_FAMILIES: Mapping[str, AudioFamily] = {family.name: family for family in _FAMILIES}
_BY_MODEL_TYPE = {model_type: family for family in _FAMILIES for model_type in family.model_types}
AUDIO_MODEL_TYPES = tuple(sorted(_BY_MODEL_TYPE))
"""Values of `model_type` that can take audio here."""


REFUSED: Mapping[str, str] = {
    "phi4mm": "phi4mm models change the weights of their language part for audio, which would change the "
    "answers to text beside it",
}
"""Values of `model_type` with audio that is not read, with the reason."""


def audio_family_of(model_type: str) -> AudioFamily | None:
    """Return the family of an architecture.

    None for one that takes no audio here.
    """
    return _BY_MODEL_TYPE.get(model_type)
