"""Transcription of one request, window after window.

Event-loop thread only. Each window starts at the end of the last complete segment.
"""

from mlxctl.inference.transcription.transcriber import transcribe

__all__ = ["transcribe"]
