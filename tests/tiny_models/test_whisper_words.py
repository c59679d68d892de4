"""Training of the transcription model writes the files of the repository."""

import math
from pathlib import Path

from . import trained
from .whisper_words import make


def test_training_program_writes_the_stored_files(tmp_path: Path) -> None:
    assert math.isfinite(make(tmp_path, num_steps=1))
    here = {path.name: path for path in trained("whisper_words").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == here.keys()
    written = [path for path in tmp_path.iterdir() if path.suffix != ".safetensors"]
    assert [path.name for path in written if path.read_bytes() != here[path.name].read_bytes()] == []
