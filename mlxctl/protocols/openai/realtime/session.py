"""The configuration of a session, and updates of it."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from mlxctl.ir.audio_format import Law
from mlxctl.ir.errors import InvalidRequest

Modality = Literal["text", "audio"]
_Milliseconds = Annotated[int, Meta(ge=0, le=10_000)]
# Of semantic_vad. Without a model of turns, a longer pause ends a turn more surely.
_SILENCE_MS = {"low": 1500, "medium": 800, "auto": 800, "high": 500}
_DEFAULT_THRESHOLD, _DEFAULT_PREFIX_MS, _DEFAULT_SILENCE_MS = 0.5, 300, 500


class SampleFormat(Struct, frozen=True):
    """A format of samples of one channel.

    `audio/pcm` has 24,000 signed 16-bit integers a second, little-endian; `audio/pcmu` and `audio/pcma` are
    G.711 with 8,000 bytes a second, and have no `rate`.
    """

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[24000] | UnsetType = UNSET

    @property
    def law(self) -> Law | None:
        """That of G.711, None for `audio/pcm`."""
        return None if self.type == "audio/pcm" else self.type

    def shown(self) -> "SampleFormat":
        """Return the format as events show it."""
        return SampleFormat(self.type, UNSET if self.law else 24000)


class _TurnDetection(Struct, frozen=True, kw_only=True, tag_field="type"):
    """What happens when the user begins and ends to speak."""

    create_response: bool = True
    interrupt_response: bool = True


class ServerVad(_TurnDetection, frozen=True, kw_only=True, tag="server_vad"):
    """Turns end in pauses of `silence_duration_ms`."""

    threshold: Annotated[float, Meta(ge=0, le=1)] = _DEFAULT_THRESHOLD
    prefix_padding_ms: _Milliseconds = _DEFAULT_PREFIX_MS
    silence_duration_ms: _Milliseconds = _DEFAULT_SILENCE_MS
    idle_timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] | None = None


class SemanticVad(_TurnDetection, frozen=True, kw_only=True, tag="semantic_vad"):
    """As ServerVad; `eagerness` chooses the pause."""

    eagerness: Literal["low", "medium", "high", "auto"] = "auto"

    @property
    def idle_timeout_ms(self) -> None:
        return None

    @property
    def threshold(self) -> float:
        return _DEFAULT_THRESHOLD

    @property
    def prefix_padding_ms(self) -> int:
        return _DEFAULT_PREFIX_MS

    @property
    def silence_duration_ms(self) -> int:
        return _SILENCE_MS[self.eagerness]


class InputTranscription(Struct, frozen=True, omit_defaults=True):
    """How speech is transcribed; the names are those of transcription requests."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None
    languages: list[str] | None = None
    keywords: list[str] | None = None


class AudioInput(Struct, frozen=True, kw_only=True):
    """The audio of the user.

    Without `transcription`, no events of it are sent.
    """

    format: SampleFormat = SampleFormat().shown()
    transcription: InputTranscription | None = None
    noise_reduction: None = None
    turn_detection: ServerVad | SemanticVad | None = ServerVad()


class AudioOutput(Struct, frozen=True, kw_only=True):
    """The audio of the answers.

    `model` is the speech model, which OpenAI's API does not name.
    """

    format: SampleFormat = SampleFormat().shown()
    voice: str | None = None
    speed: float = 1.0
    model: str | None = None


class Audio(Struct, frozen=True, kw_only=True):
    """Input and output."""

    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class FunctionTool(Struct, omit_defaults=True, kw_only=True, tag_field="type", tag="function"):
    """A function that the client runs."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class NamedFunction(Struct, tag_field="type", tag="function"):
    """The function that the model must call."""

    name: str


class Reasoning(Struct, frozen=True):
    """How much the model thinks first; by default not at all."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class Answering(Struct, kw_only=True):
    """What a session and a response say about answers."""

    output_modalities: list[Modality] = field(default_factory=lambda: ["audio"])
    instructions: str = ""
    tools: list[FunctionTool] = []
    tool_choice: Literal["auto", "none", "required"] | NamedFunction = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: Annotated[int, Meta(ge=1)] | Literal["inf"] = "inf"
    reasoning: Reasoning | None = None


class Session(Answering, kw_only=True):
    """The configuration in force. `expires_at` is in unix seconds."""

    id: str
    type: Literal["realtime", "transcription"]
    model: str
    expires_at: int
    truncation: Literal["auto", "disabled"] = "auto"
    audio: Audio = Audio()

    def shown(self) -> dict[str, Any]:
        """Return the session as events show it."""
        if self.type == "transcription":
            return {
                "type": self.type,
                "object": "realtime.transcription_session",
                "id": self.id,
                "expires_at": self.expires_at,
                "audio": {"input": self.audio.input},
            }
        return asdict(self) | {"object": "realtime.session"}


class InputPatch(Struct, frozen=True, kw_only=True):
    """New values of AudioInput."""

    format: SampleFormat | UnsetType = UNSET
    transcription: InputTranscription | UnsetType | None = UNSET
    turn_detection: ServerVad | SemanticVad | UnsetType | None = UNSET


class VoiceId(Struct):
    """A voice by its id."""

    id: str


class OutputPatch(Struct, frozen=True, kw_only=True):
    """New values of AudioOutput."""

    format: SampleFormat | UnsetType = UNSET
    voice: str | VoiceId | UnsetType = UNSET
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] | UnsetType = UNSET
    model: str | UnsetType | None = UNSET


class AudioPatch(Struct, frozen=True, kw_only=True):
    """New values of Audio."""

    input: InputPatch = InputPatch()
    output: OutputPatch = OutputPatch()


class AnsweringPatch(Struct, kw_only=True):
    """New values of Answering. `prompt` names texts that are stored at OpenAI."""

    output_modalities: list[Modality] | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: list[FunctionTool] | UnsetType | None = UNSET
    tool_choice: Literal["auto", "none", "required"] | NamedFunction | UnsetType | None = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    max_output_tokens: Annotated[int, Meta(ge=1)] | Literal["inf"] | UnsetType | None = UNSET
    reasoning: Reasoning | UnsetType | None = UNSET
    prompt: dict[str, Any] | None = None
    audio: AudioPatch = AudioPatch()


class SessionPatch(AnsweringPatch, kw_only=True):
    """New values of a session; what is left out stays."""

    type: Literal["realtime", "transcription"] | UnsetType = UNSET
    truncation: Literal["auto", "disabled"] | dict[str, Any] | UnsetType | None = UNSET


_DEFAULTS = {name: getattr(Answering(), name) for name in Answering.__struct_fields__}


def updated(session: Session, patch: AnsweringPatch, *, path: str) -> Session:
    """Return a session with new values. Raises InvalidRequest."""
    if patch.output_modalities == []:
        raise InvalidRequest(f"{path}.output_modalities is empty", param=f"{path}.output_modalities")
    if patch.prompt is not None:
        message = f"{path}.prompt is not supported; send instructions"
        raise InvalidRequest(message, param=f"{path}.prompt", code="unsupported_parameter")
    # Null is the default.
    values = {name: _DEFAULTS[name] if value is None else value for name, value in _given(patch, _DEFAULTS)}
    if isinstance(patch, SessionPatch):
        if patch.type is not UNSET:
            values["type"] = patch.type
        if patch.truncation is not UNSET:
            # Old messages are dropped as far as it is necessary, however much OpenAI would drop.
            values["truncation"] = "disabled" if patch.truncation == "disabled" else "auto"
    given, audio = patch.audio, session.audio
    heard, output = (dict(_given(part, part.__struct_fields__)) for part in (given.input, given.output))
    for part in (heard, output):
        if "format" in part:
            part["format"] = part["format"].shown()
    if isinstance(given.output.voice, VoiceId):
        output["voice"] = given.output.voice.id
    values["audio"] = Audio(
        input=replace(audio.input, **heard),
        output=replace(audio.output, **output),
    )
    return replace(session, **values)


def _given(patch: Struct, names: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name in names if (value := getattr(patch, name)) is not UNSET]
