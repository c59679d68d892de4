"""Frames survive being cut anywhere; invalid streams raise."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.wire.commands import Cancel, Stop, Submit
from mlxctl.engine.wire.framing import (
    MAX_FRAME_BYTES,
    FrameTooLargeError,
    command_reader,
    encode_frame,
    report_reader,
)
from mlxctl.engine.wire.reports import RowUpdate, Score, Step
from mlxctl.ir import SamplingParams

SUBMIT = Submit(
    sequence_id=1,
    model="m",
    prompt_token_ids=bytes(12),
    sampling=SamplingParams(temperature=0.3, logit_bias={7: -1.5}, seed=2**63 - 1),
    stop_token_ids=[4],
    max_tokens=9,
)


@given(st.lists(st.integers(1, 40), max_size=60))
def test_frames_cut_anywhere_decode_in_order(cuts: list[int]) -> None:
    commands = [SUBMIT, Cancel(ids=[1, 2]), Stop()]
    stream = b"".join(map(encode_frame, commands))
    reader = command_reader()

    received = []
    for size in cuts:
        received += list(reader.feed(stream[:size]))
        stream = stream[size:]
    received += list(reader.feed(stream))

    assert received == commands


def test_scores_survive_encoding() -> None:
    step = Step(
        rows=[RowUpdate(sequence_id=3, token_ids=[5], scores=[Score(-0.25, [(5, -0.25), (6, -2.0)])])]
    )

    assert list(report_reader().feed(encode_frame(step))) == [step]


def test_invalid_stream_raises() -> None:
    with pytest.raises(FrameTooLargeError):
        list(command_reader().feed(b"GET / HTTP/1.1\r\n"))
    with pytest.raises(msgspec.DecodeError):
        list(command_reader().feed(b"\x00\x00\x00\x03abc"))
    assert int.from_bytes(b"GET ", "big") > MAX_FRAME_BYTES
