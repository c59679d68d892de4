"""The recipe of the model that writes down what it hears makes what lies in the repository."""

import math
from pathlib import Path

from . import trained
from .whisper_words import make


def test_the_recipe_makes_the_files_that_lie_here(tmp_path: Path) -> None:
    assert math.isfinite(make(tmp_path, num_steps=1))
    here = {path.name: path for path in trained("whisper_words").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == here.keys()
    written = [path for path in tmp_path.iterdir() if path.suffix != ".safetensors"]
    assert [path.name for path in written if path.read_bytes() != here[path.name].read_bytes()] == []
