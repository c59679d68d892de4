"""Every transcript under every chunking."""

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS

from .replay import Transcript, chunkings, cut, load_transcripts, play

ALL = load_transcripts()
FILES = {
    name: list(transcripts) for name, transcripts in groupby(ALL, key=lambda each: each.id.partition(":")[0])
}


@pytest.mark.parametrize("file", FILES)
def test_transcripts_parse_equally_under_every_chunking(file: str) -> None:
    for transcript in FILES[file]:
        for chunks in chunkings(transcript.text):
            assert play(transcript, chunks) == list(transcript.expect), (transcript.id, chunks)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL), st.sets(st.integers(0, 250)))
def test_transcript_parses_equally_under_random_cuts(transcript: Transcript, places: set[int]) -> None:
    assert play(transcript, cut(transcript.text, places)) == list(transcript.expect)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([transcript for transcript in ALL if not transcript.stop]),
    st.integers(0, 250),
    st.booleans(),
)
def test_begun_transcript_parses_equally_under_every_chunking(
    transcript: Transcript, length: int, is_cut_off: bool
) -> None:
    begun = replace(transcript, text=transcript.text[:length], is_cut_off=is_cut_off)
    assert play(begun, list(begun.text)) == play(begun, [begun.text])


def test_every_parser_has_transcripts() -> None:
    assert {transcript.tools for transcript in ALL} == set(TOOL_PARSER_IDS)
    assert {transcript.thinking for transcript in ALL} == set(THINKING_PARSER_IDS)
