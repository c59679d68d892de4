"""A model that is to be asked: what its files say, read and checked before anything is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlxctl import __version__
from mlxctl.adapters import create_adapter
from mlxctl.errors import BrokenModel, RequestError
from mlxctl.installed import version_of
from mlxctl.ir import GenerationRequest, ModelFacts, text_message
from mlxctl.models import ModelDescription, NamedDirectory, describe_model, read_model
from mlxctl.models.detection import Detection
from mlxctl.models.fingerprint import fingerprint
from mlxctl.models.transcription_recipe import supports_transcription

_SILENT_KINDS = ("reranker", "speech-to-text", "text-to-speech")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model.

    `facts` is None for a model that can be asked nothing here: it makes neither text nor vectors.
    """

    name: str
    directory: NamedDirectory
    fingerprint: str
    detection: Detection
    facts: ModelFacts | None
    trust_remote_code: bool = False


def read_subject(found: NamedDirectory, *, trust_remote_code: bool) -> Subject:
    """Read a model's files, all but its weights, and try its template. Takes milliseconds to seconds.

    Raises ModelNotFoundOnDisk, and BrokenModel for whatever would keep the model from answering.
    """
    described = describe_model(found.path, name=found.name)
    is_silent = described.detection.kind in _SILENT_KINDS and not supports_transcription(described.config)
    facts = None if is_silent else read_model(found.path, trust_remote_code=trust_remote_code)
    if facts is not None and facts.purpose == "text":
        _check_words(found, facts, described)
    return Subject(
        name=found.name,
        directory=found,
        fingerprint=fingerprint(found.path),
        detection=described.detection,
        facts=facts,
        trust_remote_code=trust_remote_code,
    )


def _check_words(found: NamedDirectory, facts: ModelFacts, described: ModelDescription) -> None:
    """Write the shortest conversation: a template that refuses it, or a tokenizer that goes beyond the
    weights, ends it here.
    """
    if described.runtimes == () and described.problem is not None:
        raise BrokenModel(found.path, described.problem)
    if facts.chat_template is None:
        raise BrokenModel(
            found.path, f"model {found.name!r} has no chat template: nothing can be asked of it"
        )
    adapter = create_adapter(facts, name=found.name)
    try:
        adapter.prepare_input(GenerationRequest(model=found.name, messages=(text_message("user", "Hello!"),)))
    except RequestError as error:
        raise BrokenModel(
            found.path, f"model {found.name!r} cannot be asked: {' '.join(str(error).split())}"
        ) from error


def versions() -> Mapping[str, str]:
    """Return the versions of all that decides what a model says and how it is read."""
    return {
        "mlxctl": __version__,
        **{
            package: version_of(package) or "missing" for package in ("mlx", "mlx-lm", "mlx-vlm", "mlx-audio")
        },
    }
