"""Rules for the text of a transcription. Event-loop thread only."""

from collections.abc import Iterable
from dataclasses import replace

from mlxctl.inference.screening import OutputRules
from mlxctl.ir import SpeechSegment
from mlxctl.ir.errors import GuardrailMatched


class GuardedSegments:
    """Filters the segments of one transcription as one text.

    Segments are held back while their text could still become a match. Without rules they pass. Methods raise
    GuardrailMatched.
    """

    def __init__(self, rules: OutputRules | None) -> None:
        self._on_verdict = rules.on_verdict if rules else None
        self._filter = rules.text_filter() if rules else None
        self._held: list[SpeechSegment] = []
        self._shown: list[str] = []

    def take(self, segments: Iterable[SpeechSegment]) -> list[SpeechSegment]:
        """Take the next segments, and return those that may be sent."""
        if self._filter is None:
            return list(segments)
        passed: list[SpeechSegment] = []
        for segment in segments:
            self._held.append(segment)
            self._shown.append(self._filter.feed(segment.text))
            self._check_verdict()
            if not self._filter.holds_back:
                passed += self._release()
        return passed

    def finish(self) -> list[SpeechSegment]:
        """Return the segments that were held back."""
        if self._filter is None or not self._held:
            return []
        self._shown[-1] += self._filter.finish()
        self._check_verdict()
        return self._release()

    def _check_verdict(self) -> None:
        assert self._filter is not None
        assert self._on_verdict is not None
        if (verdict := self._filter.verdict) is not None:
            self._on_verdict(verdict)
        if verdict == "refused":
            raise GuardrailMatched("the audio has text that this server does not accept")

    def _release(self) -> list[SpeechSegment]:
        held, shown = self._held, self._shown
        self._held, self._shown = [], []
        if "".join(shown) == "".join(segment.text for segment in held):
            return held
        # Ids and words would reveal what is redacted.
        return [
            replace(segment, text=text, token_ids=(), words=())
            for segment, text in zip(held, shown, strict=True)
        ]
