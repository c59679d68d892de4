"""Transcription of one request, window after window.

Each window starts at the end of the last complete segment.
"""

from mlxctl.inference.transcription.transcriber import transcribe

__all__ = ["transcribe"]
