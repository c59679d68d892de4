"""How a model sees is read from its files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl.errors import BrokenModel
from mlxctl.ir import SightRecipe
from mlxctl.models import read_model
from tests import forge


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(forge.trained("rowan"), tmp_path / "seer"))


def change(model: Path, name: str, **changes: Any) -> None:
    value = json.loads((model / name).read_text()) | changes
    (model / name).write_text(json.dumps({key: entry for key, entry in value.items() if entry is not None}))


def test_the_files_say_how_pictures_are_cut_and_coloured(model: Path) -> None:
    image_token_id = json.loads((model / "config.json").read_text())["image_token_index"]
    assert read_model(model).sight == SightRecipe(
        image_token_id=image_token_id, cell_size=16, longest_edge=64, mean=(0.5, 0.5, 0.5), deviation=(0.25, 0.25, 0.25)
    )


def test_cells_of_merged_patches_are_larger(model: Path) -> None:
    change(model, "config.json", model_type="mistral3", spatial_merge_size=2)
    sight = read_model(model).sight
    assert sight is not None
    assert sight.cell_size == 32


def test_what_the_image_processor_leaves_open_is_as_its_kind_has_it(model: Path) -> None:
    (model / "preprocessor_config.json").unlink()
    sight = read_model(model).sight
    assert sight is not None
    assert (sight.longest_edge, sight.mean[0]) == (1024, 0.48145466)


def test_the_newer_file_of_the_processor_wins(model: Path) -> None:
    (model / "processor_config.json").write_text(json.dumps({"image_processor": {"size": {"longest_edge": 128}}}))
    sight = read_model(model).sight
    assert sight is not None
    assert sight.longest_edge == 128


def without_eyes(model: Path) -> Path:
    """Drop the weights that it sees with, as a conversion for text does."""
    import mlx.core as mx

    weights: dict[str, Any] = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    kept = {name: weight for name, weight in weights.items() if name.startswith("language_model")}
    mx.save_safetensors(str(model / "model.safetensors"), kept, metadata={"format": "mlx"})
    return model


def test_a_conversion_that_left_the_eyes_out_is_a_model_of_text(model: Path) -> None:
    assert read_model(without_eyes(model)).sight is None


@pytest.mark.parametrize("changes", [{"vision_config": None}, {"model_type": "qwen2_vl"}])
def test_other_models_read_text_only(model: Path, changes: dict[str, Any]) -> None:
    change(model, "config.json", **changes)
    assert read_model(model).sight is None


@pytest.mark.parametrize(
    ("file", "changes", "complaint"),
    [
        ("config.json", {"image_token_index": "[IMG]"}, "does not say how it sees: '\\[IMG\\]' is no size"),
        ("config.json", {"vision_config": {}}, "does not say how it sees"),
        ("config.json", {"image_token_index": None}, "does not say how it sees"),
        ("preprocessor_config.json", {"size": {"longest_edge": 0}}, "does not say how it sees"),
        ("preprocessor_config.json", {"image_mean": [0.5]}, "names no three colours"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(model: Path, file: str, changes: dict[str, Any], complaint: str) -> None:
    change(model, file, **changes)
    with pytest.raises(BrokenModel, match=complaint) as refusal:
        read_model(model)
    assert "\n" not in str(refusal.value)
