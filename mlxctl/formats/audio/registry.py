"""All families of language models that take audio."""

from collections.abc import Mapping

from mlxctl.formats import audio
from mlxctl.formats.audio.family import AudioFamily
from mlxctl.formats.discovery import declared_in

_FAMILIES = declared_in(audio, AudioFamily)
AUDIO_FAMILIES: Mapping[str, AudioFamily] = {family.name: family for family in _FAMILIES}
_BY_MODEL_TYPE = {model_type: family for family in _FAMILIES for model_type in family.model_types}
AUDIO_MODEL_TYPES = tuple(sorted(_BY_MODEL_TYPE))
"""Values of `model_type` that can take audio here."""


def audio_family_of(model_type: str) -> AudioFamily | None:
    """Return the family of an architecture.

    None for one that takes no audio here.
    """
    return _BY_MODEL_TYPE.get(model_type)
