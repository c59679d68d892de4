"""Transcription of one request, window after window.

Event-loop thread only. Whisper's windows begin at the end of the last complete segment; those of other models
are cut in pauses.
"""

from mlxctl.inference.transcription.transcriber import helpers_of, transcribe

__all__ = ["helpers_of", "transcribe"]
