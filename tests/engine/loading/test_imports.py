"""Slow imports run beside the MLX thread."""

import subprocess
import sys
from pathlib import Path

import pytest

from mlxctl.engine.loading.imports import import_in_thread
from tests import tiny_models

# Loads a model in pieces, as the engine does, and prints which threads have imported something of mlx-vlm.
_WHO_IMPORTS = """
import sys, threading
threads = set()
def note(event, found):
    if event == "import" and found[0].startswith("mlx_vlm"):
        threads.add(threading.current_thread().name)
sys.addaudithook(note)
from pathlib import Path
from mlxctl.engine.embedding.loading import load_embedding_model
from mlxctl.engine.generation.loading import load_text_model
from mlxctl.library import read_model
for path in sys.argv[1:]:
    facts = read_model(Path(path))
    spec, recipe = facts.spec("m"), facts.embedding
    pieces = load_text_model(spec) if recipe is None else load_embedding_model(spec, recipe)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            kind = type(end.value.model).__name__
            assert (kind == "VisionLanguageModel") == (facts.vision is not None)
            break
print(sorted(threads))
"""


def test_import_in_thread_yields_until_modules_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_gate.py").write_text("import threading\nopened = threading.Event()\n")
    (tmp_path / "behind_the_gate.py").write_text("import a_gate\na_gate.opened.wait(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    turns = import_in_thread("a_gate", "behind_the_gate", "json")
    for _ in range(5):
        next(turns)
    sys.modules["a_gate"].opened.set()
    assert sum(1 for _ in turns) < 1000
    assert "behind_the_gate" in sys.modules


def test_import_in_thread_raises_import_errors() -> None:
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        list(import_in_thread("json", "there_is_no_such_module"))


@pytest.mark.parametrize(
    "models",
    [
        pytest.param((tiny_models.trained("pixtral_colors"), tiny_models.model("qwen2_5_vl")), id="vision"),
        pytest.param((tiny_models.encoder("bert"),), id="encoder"),
    ],
)
def test_loading_thread_does_not_import_mlx_vlm(models: tuple[Path, ...]) -> None:
    command = [sys.executable, "-c", _WHO_IMPORTS, *map(str, models)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout == "['import_0']\n", run.stderr
