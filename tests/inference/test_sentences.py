"""Cutting a text into pieces that are spoken one after the other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.inference.speech.sentences import MAX_CHARS, SentenceStream, cut_sentences

CHARACTERS = st.text(st.sampled_from("ab .,!?…\n-。，”"), max_size=400)


@settings(max_examples=60)
@given(text=CHARACTERS, max_chars=st.integers(1, 60), min_chars=st.integers(0, 20))
def test_pieces_have_all_of_the_text_and_are_short(text: str, max_chars: int, min_chars: int) -> None:
    pieces = list(cut_sentences(text, max_chars=max_chars, min_chars=min_chars))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= max_chars and piece == piece.strip() for piece in pieces)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (
            "Dr. Smith paid $3.50. He left at 5 p.m. today!",
            ["Dr. Smith paid $3.50.", "He left at 5 p.m. today!"],
        ),
        ("She asked: “Why?” Then she left.", ["She asked: “Why?”", "Then she left."]),
        ("今天很好。我们走吧！", ["今天很好。", "我们走吧！"]),
        ("A title\n\nA text without an end", ["A title", "A text without an end"]),
        ("A list:\n- one\n- two", ["A list:", "- one", "- two"]),
    ],
)
def test_sentences_end_where_a_speaker_pauses(text: str, pieces: list[str]) -> None:
    assert list(cut_sentences(text, min_chars=0)) == pieces


def test_short_sentences_are_spoken_with_the_next() -> None:
    text = "Yes. No. That is a sentence of its own, which is long enough. Oh."
    assert list(cut_sentences(text)) == [
        "Yes. No. That is a sentence of its own, which is long enough.",
        "Oh.",
    ]


def test_a_long_sentence_is_cut_at_a_clause_or_a_space() -> None:
    clause = " ".join(["word"] * 50)
    first, *_ = cut_sentences(f"{clause}, {clause}")
    assert first == f"{clause},"
    assert [len(piece) for piece in cut_sentences("x" * (MAX_CHARS + 5))] == [MAX_CHARS, 5]


@settings(max_examples=60)
@given(text=CHARACTERS, size=st.integers(1, 7))
def test_parts_of_a_text_give_all_of_it_in_short_pieces(text: str, size: int) -> None:
    stream = SentenceStream()
    pieces = [piece for at in range(0, len(text), size) for piece in stream.feed(text[at : at + size])]
    pieces += stream.finish()
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= MAX_CHARS for piece in pieces)


def test_piece_is_complete_when_the_next_has_begun() -> None:
    stream = SentenceStream()
    assert stream.feed("This sentence is long enough to be spoken. ") == []
    assert stream.feed("And") == ["This sentence is long enough to be spoken."]
    assert stream.finish() == ["And"]
