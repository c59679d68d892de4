"""Subtitles of a transcription: SubRip (SRT) and WebVTT. Pure."""

from mlxctl.ir import SpeechSegment, TranscriptionResult


def srt(result: TranscriptionResult) -> str:
    """Return the segments as numbered cues of SubRip."""
    cues = (f"{number}\n{_cue(segment, ',')}" for number, segment in enumerate(result.segments, start=1))
    return "".join(cues)


def vtt(result: TranscriptionResult) -> str:
    """Return the segments as cues of WebVTT."""
    return "WEBVTT\n\n" + "".join(_cue(segment, ".") for segment in result.segments)


def _cue(segment: SpeechSegment, mark: str) -> str:
    # An arrow in the text would look like a cue's times.
    text = segment.text.strip().replace("-->", "->")
    return f"{_clock(segment.start, mark)} --> {_clock(segment.end, mark)}\n{text}\n\n"


def _clock(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"
