"""Training of the color models writes the files of the repository."""

import math
from pathlib import Path

import pytest

from . import trained
from .color_vision import make
from .color_vision_models import COLOR_MODELS


@pytest.mark.parametrize("name", COLOR_MODELS)
def test_training_program_writes_the_stored_files(tmp_path: Path, name: str) -> None:
    assert math.isfinite(make(tmp_path, name=name, num_steps=2))
    here = {path.name: path for path in trained(name).iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == here.keys()
    written = [path for path in tmp_path.iterdir() if path.suffix != ".safetensors"]
    assert [path.name for path in written if path.read_bytes() != here[path.name].read_bytes()] == []
