"""Commands and reports of jobs: embedding, transcription and speech.

A job is work with one result, or with a stream of them. A new kind of job adds its command and its report to
the two unions.
"""

import msgspec

from mlxctl.engine.wire.commands import Command
from mlxctl.engine.wire.reports import Report
from mlxctl.ir import ReferenceAudio, SpeakerTurn, SpeechTask, TimedWord


class JobCommand(Command, frozen=True, kw_only=True):
    """Base of the commands of jobs, answered by any number of JobReports.

    `job_id` is unique among jobs and sequences. `request_id` is the HTTP request's, as in Submit.
    """

    job_id: int
    request_id: str = ""


class JobReport(Report, frozen=True, kw_only=True):
    """Base of the reports of a job's steps.

    With a `failure` it is the job's last.
    """

    job_id: int
    failure: str | None = None


class Embed(JobCommand, frozen=True, kw_only=True):
    """Compute the vector of each text.

    Texts are packed uint32 in the machine's byte order. Answered by Embedded. `dimensions` cuts the vectors;
    None leaves them whole.
    """

    model: str
    texts: list[bytes]
    dimensions: int | None = None


class Embedded(JobReport, frozen=True, kw_only=True):
    """Vectors of some texts of a job.

    float32, machine's byte order, one after the other. `places` are the indices of the texts in Embed; none
    while a long text is still being computed.
    """

    places: list[int] = msgspec.field(default_factory=list)
    vectors: bytes = b""


class AudioWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Audio to transcribe: `samples` as in `ir.transcription`.

    For Whisper, `previous_ids` is the text before it, and without a `language_id` a multilingual model
    detects the language, among `language_ids` if there are any; with `word_times` its tokens have times.
    Other families take `language`, a code, and `prompt`. An alignment model finds the times of
    `words`, a diarization model continues from the `state` after the window before.
    """

    model: str
    samples: bytes
    task: SpeechTask = "transcribe"
    language_id: int | None = None
    language_ids: list[int] = []
    previous_ids: list[int] = []
    word_times: bool = False
    temperature: float = 0.0
    language: str | None = None
    prompt: str = ""
    words: list[str] = []
    state: bytes = b""


class Transcribe(JobCommand, frozen=True, kw_only=True):
    """Transcribe an audio window; answered by Transcribed."""

    window: AudioWindow


class TranscribedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript of a window.

    For Whisper, tokens of text and timestamps; `no_speech` is the probability, by the model, that the window
    holds no speech, and `token_times` are where the tokens of the text begin, and the last one ends. For
    other families `text` or `words`, and the code of the `language` if the model names it. Of a diarization
    model, `turns` and the next `state`. Times are in seconds from the beginning of the window.
    """

    token_ids: list[int] = []
    language_id: int | None = None
    mean_logprob: float = 0.0
    no_speech: float = 0.0
    token_times: list[float] = []
    text: str = ""
    words: list[TimedWord] = []
    language: str | None = None
    turns: list[SpeakerTurn] = []
    state: bytes = b""


class Transcribed(JobReport, frozen=True, kw_only=True):
    """The transcript of a window.

    Without one, and without a failure, the work continues.
    """

    window: TranscribedWindow | None = None


class Speak(JobCommand, frozen=True, kw_only=True):
    """Speak a text, usually one sentence; answered by Spoken.

    The fields are those of SpeechRequest. The same `seed` gives the same samples, whatever else runs.
    """

    model: str
    text: str
    seed: int
    voice: str | None = None
    instructions: str | None = None
    language: str | None = None
    speed: float = 1.0
    reference: ReferenceAudio | None = None


class Spoken(JobReport, frozen=True, kw_only=True):
    """The next samples of a job; the last report `is_last`.

    Samples are as in SpeechChunk. Without samples, and without a failure, the work continues.
    """

    samples: bytes = b""
    num_text_tokens: int = 0
    num_audio_tokens: int = 0
    is_last: bool = False


AnyJobCommand = Embed | Transcribe | Speak
AnyJobReport = Embedded | Transcribed | Spoken
