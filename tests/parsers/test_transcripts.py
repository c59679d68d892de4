"""Every transcript under every chunking."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS

from .replay import Transcript, chunkings, cut, load_transcripts, play

ALL = load_transcripts()
by_id = pytest.mark.parametrize("transcript", ALL, ids=lambda transcript: transcript.id)


@by_id
def test_transcript_parses_equally_under_every_chunking(transcript: Transcript) -> None:
    for chunks in chunkings(transcript.text):
        assert play(transcript, chunks) == list(transcript.expect), chunks


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL), st.sets(st.integers(0, 250)))
def test_transcript_parses_equally_under_random_cuts(transcript: Transcript, places: set[int]) -> None:
    assert play(transcript, cut(transcript.text, places)) == list(transcript.expect)


def test_every_parser_has_transcripts() -> None:
    assert {transcript.tools for transcript in ALL} == set(TOOL_PARSER_IDS)
    assert {transcript.thinking for transcript in ALL} == set(THINKING_PARSER_IDS)
