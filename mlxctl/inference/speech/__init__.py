"""Speech of one request, sentence after sentence. Event-loop thread only."""

from mlxctl.inference.speech.spoken_text import SpokenText, check_request

__all__ = ["SpokenText", "check_request"]
