"""Files of a model to probe, checked before it is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlxctl import __version__
from mlxctl.formats.adapters import create_adapter
from mlxctl.ir import GenerationRequest, ModelFacts, text_message
from mlxctl.ir.errors import BrokenModel, RequestError
from mlxctl.library import ModelDescription, NamedDirectory, describe_model, read_model
from mlxctl.library.cross_encoder import is_cross_encoder
from mlxctl.library.detection import Detection
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.speech_recipe import speech_family
from mlxctl.library.transcription_recipe import supports_transcription
from mlxctl.state.installed import version_of

_UNSUPPORTED_KINDS = ("reranker", "speech-to-text", "alignment", "diarization", "text-to-speech")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSubject:
    """A model to probe.

    `facts` is None for a kind that cannot be run here.
    """

    name: str
    directory: NamedDirectory
    fingerprint: str
    detection: Detection
    facts: ModelFacts | None
    trust_remote_code: bool = False


def read_subject(found: NamedDirectory, *, trust_remote_code: bool) -> ProbeSubject:
    """Read a model's files, except weights, and render its template.

    Takes milliseconds to seconds. Raises ModelNotFoundOnDisk, and BrokenModel for files that cannot be
    served.
    """
    described = describe_model(found.path, name=found.name)
    is_unsupported = described.detection.kind in _UNSUPPORTED_KINDS and not (
        supports_transcription(described.config)
        or is_cross_encoder(described.config)
        or speech_family(described.config, found.name) is not None
    )
    facts = None if is_unsupported else read_model(found.path, trust_remote_code=trust_remote_code)
    if facts is not None and facts.purpose == "text":
        _check_template(found, facts, described)
    return ProbeSubject(
        name=found.name,
        directory=found,
        fingerprint=fingerprint(found.path),
        detection=described.detection,
        facts=facts,
        trust_remote_code=trust_remote_code,
    )


def _check_template(found: NamedDirectory, facts: ModelFacts, described: ModelDescription) -> None:
    """Prepare a minimal conversation; raise BrokenModel if that fails."""
    if described.runtimes == () and described.problem is not None:
        raise BrokenModel(found.path, described.problem)
    if facts.chat_template is None:
        raise BrokenModel(found.path, f"model {found.name!r} has no chat template, so it cannot be probed")
    adapter = create_adapter(facts, name=found.name)
    request = GenerationRequest(model=found.name, messages=(text_message("user", "Hello!"),))
    try:
        adapter.prepare_input(adapter.normalized(request))
    except RequestError as error:
        raise BrokenModel(
            found.path, f"model {found.name!r} cannot be probed: {' '.join(str(error).split())}"
        ) from error


def versions() -> Mapping[str, str]:
    """Return the versions of the packages that influence answers and their parsing."""
    return {
        "mlxctl": __version__,
        **{
            package: version_of(package) or "missing" for package in ("mlx", "mlx-lm", "mlx-vlm", "mlx-audio")
        },
    }
