"""Speech to text for one request: window after window, each from where the last one had understood
everything.
"""

from mlxctl.inference.transcription.transcriber import transcribe

__all__ = ["transcribe"]
