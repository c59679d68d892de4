"""G.711, with the values of its tables."""

from typing import Any

import numpy as np
import pytest

from mlxctl.formats.adapters.media import telephone_audio
from mlxctl.formats.adapters.media.telephone_audio import TelephoneDecoder, TelephoneEncoder
from mlxctl.ir.audio_format import Law

LAWS: tuple[Law, ...] = ("audio/pcmu", "audio/pcma")


def codes(law: Law, *values: int) -> list[int]:
    encode = telephone_audio._mu_codes if law == "audio/pcmu" else telephone_audio._a_codes
    return list(encode(np.array(values)))


def levels(law: Law, *given: int) -> list[int]:
    decode = telephone_audio._mu_levels if law == "audio/pcmu" else telephone_audio._a_levels
    return list(decode(np.array(given)))


def test_values_are_those_of_the_tables() -> None:
    assert levels("audio/pcmu", 0x00, 0x80, 0xFF, 0x7F, 0xE0) == [-32124, 32124, 0, 0, 372]
    assert codes("audio/pcmu", 0, 32767, -32768, 372, -1) == [0xFF, 0x80, 0x00, 0xE0, 0x7E]
    assert levels("audio/pcma", 0x2A, 0xAA, 0xD5, 0x55) == [-32256, 32256, 8, -8]
    assert codes("audio/pcma", 0, 32767, -32768, -1) == [0xD5, 0xAA, 0x2A, 0x55]


@pytest.mark.parametrize("law", LAWS)
def test_each_byte_is_that_of_its_value(law: Law) -> None:
    given: Any = range(256)
    again = codes(law, *levels(law, *given))
    # μ-law has two bytes for zero.
    assert [byte for byte, other in zip(given, again, strict=True) if byte != other] in ([], [0x7F])


@pytest.mark.parametrize("law", LAWS)
def test_sound_in_parts_comes_back(law: Law) -> None:
    tone = np.sin(np.arange(24_000) * 2 * np.pi * 440 / 24_000) * 8000
    samples, encoder, decoder = tone.astype("<i2").tobytes(), TelephoneEncoder(law), TelephoneDecoder(law)
    parts = [encoder.feed(samples[start : start + 4000]) for start in range(0, len(samples), 4000)]
    sent = b"".join((*parts, encoder.finish()))
    heard = b"".join((decoder.feed(sent[:999]), decoder.feed(sent[999:]), decoder.finish()))
    assert (len(sent), len(heard)) == (8000, len(samples))
    error = np.frombuffer(heard, "<i2")[500:-500] - tone[500:-500]
    assert 20 * np.log10(8000 / np.sqrt(2) / error.std()) > 33
