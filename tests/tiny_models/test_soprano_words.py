"""Training of the speech model writes the files of the repository."""

import math
from pathlib import Path

from . import trained
from .soprano_words import make


def test_training_program_writes_the_stored_files(tmp_path: Path) -> None:
    assert math.isfinite(make(tmp_path, num_steps=1))
    # The length of the sounds, and so the vocabulary, depends on the voice of the machine.
    here = {path.name for path in trained("soprano_words").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == here
