"""Rules for the text of a transcription, segment by segment."""

import pytest

from mlxctl.inference.screening import OutputRules
from mlxctl.inference.transcription.guarded_segments import GuardedSegments
from mlxctl.ir import SpeechSegment
from mlxctl.ir.errors import GuardrailMatched
from mlxctl.ir.policy import GuardrailRules
from mlxctl.server.policy.guardrails import Guardrails


def segment(text: str) -> SpeechSegment:
    return SpeechSegment(
        start=0.0,
        end=1.0,
        text=text,
        token_ids=(1, 2),
        seek=0,
        temperature=0.0,
        mean_logprob=0.0,
        compression_ratio=1.0,
        no_speech=0.0,
    )


def guarded(verdicts: list[str], **rules: str) -> GuardedSegments:
    guardrails = Guardrails(GuardrailRules(blocklist=("project falcon",), **rules))  # type: ignore[arg-type]
    return GuardedSegments(OutputRules(text_filter=guardrails.text_filter, on_verdict=verdicts.append))


def test_segments_without_a_match_stay_as_they_are() -> None:
    verdicts: list[str] = []
    guard = guarded(verdicts, action="redact")
    segments = [segment(" Our project"), segment(" is done."), segment(" The next project")]
    assert guard.take(segments[:1]) == []
    assert guard.take(segments[1:]) == segments[:2]
    assert (guard.finish(), verdicts) == (segments[2:], [])


def test_match_across_segments_is_redacted_with_its_token_ids() -> None:
    verdicts: list[str] = []
    guard = guarded(verdicts, action="redact")
    shown = guard.take([segment(" It is fine."), segment(" Our project"), segment(" falcon flies.")])
    assert "".join(each.text for each in shown) == " It is fine. Our [redacted] flies."
    assert [each.token_ids for each in shown] == [(1, 2), (), ()]
    assert {*verdicts} == {"redacted"}


def test_refused_text_ends_the_transcription() -> None:
    verdicts: list[str] = []
    guard = guarded(verdicts)
    assert guard.take([segment(" Project")]) == []
    with pytest.raises(GuardrailMatched) as refused:
        guard.take([segment(" Falcon.")])
    assert "falcon" not in str(refused.value).lower()
    assert verdicts == ["refused"]


def test_flagged_text_stays() -> None:
    verdicts: list[str] = []
    segments = [segment(" Project"), segment(" Falcon.")]
    assert guarded(verdicts, action="flag").take(segments) == segments
    assert verdicts == ["flagged"]
