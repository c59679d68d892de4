"""Audio files that macOS decodes, with a program in its place."""

import shutil
import sys
from pathlib import Path

import pytest

from mlxctl.formats.adapters.media import audio_decoders
from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.ir.errors import InvalidRequest
from tests.tiny_models.audio_samples import noise, silence

M4A = b"\0\0\0\x18ftypM4A " + bytes(100)


@pytest.fixture
def converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a program called afconvert gives.

    It fails without the file.
    """
    wanted, program = tmp_path / "wanted.wav", tmp_path / "afconvert"
    program.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        "assert sys.argv[1:7] == ['-f', 'WAVE', '-d', 'LEI16@16000', '-c', '1'], sys.argv\n"
        f"shutil.copyfile({str(wanted)!r}, sys.argv[-1])\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "afconvert" else None)
    return wanted


def test_m4a_is_decoded_where_macos_does(converter: Path) -> None:
    converter.write_bytes(noise(2))
    file = AudioFile(M4A)
    assert (file.num_samples, len(file.read_window(0, 100))) == (32_000, 200)


def test_a_file_that_macos_refuses_or_that_grows_too_large_is_an_error(
    converter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="cannot be decoded by macOS"):
        AudioFile(M4A)
    converter.write_bytes(silence(2))
    monkeypatch.setattr(audio_decoders, "SAMPLE_BYTES", 0)
    with pytest.raises(InvalidRequest, match="is too long"):
        AudioFile(M4A)
