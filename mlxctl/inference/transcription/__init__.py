"""Transcription of one request: window after window, each from the end of the last complete segment."""

from mlxctl.inference.transcription.transcriber import transcribe

__all__ = ["transcribe"]
