"""Speech to text for one request: window after window, each from where the last one had understood everything."""

from mlxctl.inference.speech.transcription import transcribe

__all__ = ["transcribe"]
