"""How a model sees is read from its files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl import installed
from mlxctl.ir import VisionRecipe
from mlxctl.models import read_model
from tests import tiny_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "vision_model"))


def change(model: Path, name: str, **changes: Any) -> None:
    value = json.loads((model / name).read_text()) | changes
    (model / name).write_text(json.dumps({key: entry for key, entry in value.items() if entry is not None}))


def test_the_files_say_how_pictures_are_cut_and_colored(model: Path) -> None:
    image_token_id = json.loads((model / "config.json").read_text())["image_token_index"]
    assert read_model(model).vision == VisionRecipe(
        kind="pixtral",
        image_token_id=image_token_id,
        cell_size=16,
        longest_edge=64,
        mean=(0.5, 0.5, 0.5),
        deviation=(0.25, 0.25, 0.25),
        resample=3,
    )


def test_cells_of_merged_patches_are_larger(model: Path) -> None:
    change(model, "config.json", model_type="mistral3", spatial_merge_size=2)
    vision = read_model(model).vision
    assert vision is not None
    assert vision.cell_size == 32


def test_what_the_image_processor_leaves_open_is_as_its_kind_has_it(model: Path) -> None:
    (model / "preprocessor_config.json").unlink()
    vision = read_model(model).vision
    assert vision is not None
    assert (vision.longest_edge, vision.mean[0]) == (1024, 0.48145466)


def test_the_newer_file_of_the_processor_wins(model: Path) -> None:
    (model / "processor_config.json").write_text(
        json.dumps({"image_processor": {"size": {"longest_edge": 128}}})
    )
    vision = read_model(model).vision
    assert vision is not None
    assert vision.longest_edge == 128


def without_eyes(model: Path) -> Path:
    """Drop the weights that it sees with, as a conversion for text does."""
    import mlx.core as mx

    weights: dict[str, Any] = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    kept = {name: weight for name, weight in weights.items() if name.startswith("language_model")}
    mx.save_safetensors(str(model / "model.safetensors"), kept, metadata={"format": "mlx"})
    return model


def test_a_conversion_that_left_the_eyes_out_is_a_model_of_text(model: Path) -> None:
    assert read_model(without_eyes(model)).vision is None


def test_a_model_without_a_part_for_pictures_reads_text_and_nothing_is_missing(model: Path) -> None:
    change(model, "config.json", vision_config=None)
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (None, None)


def test_of_a_kind_that_is_not_computed_here_it_is_told(model: Path) -> None:
    change(model, "config.json", model_type="idefics3")
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (None, "images of idefics3 models are not computed here")


def test_without_the_packages_a_model_that_sees_reads_text(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        installed, "EXTRAS", {"vision": {"mlx_vlm_that_is_missing": "mlx-vlm", "PIL": "Pillow"}}
    )
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (
        None,
        "images need mlx-vlm (pip install 'mlxctl[vision]')",
    )


@pytest.mark.parametrize(
    ("file", "changes", "complaint"),
    [
        ("config.json", {"image_token_index": "[IMG]"}, "image_token_index is '[IMG]', and no size"),
        ("config.json", {"vision_config": {}}, "patch_size is None, and no size"),
        ("config.json", {"image_token_index": None}, "image_token_id is None, and no size"),
        ("preprocessor_config.json", {"size": {"longest_edge": 0}}, "longest_edge is 0, and no size"),
        ("preprocessor_config.json", {"image_mean": [0.5]}, "image_mean is [0.5], and not three colors"),
        ("preprocessor_config.json", {"resample": 17}, "resample is 17, and no filter"),
    ],
)
def test_a_model_whose_files_are_unclear_reads_text_and_says_why(
    model: Path, file: str, changes: dict[str, Any], complaint: str
) -> None:
    change(model, file, **changes)
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (None, f"its files do not say how it sees: {complaint}")


def test_qwen_names_the_limits_of_a_picture_in_either_of_two_ways() -> None:
    for name in ("qwen2_vl", "qwen3_vl"):
        vision = read_model(tiny_models.model(name)).vision
        assert vision is not None
        assert (vision.kind, vision.cell_size, vision.min_pixels, vision.max_pixels) == (
            "qwen",
            16,
            256,
            16_384,
        )


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5_seer"])
def test_each_frequency_follows_the_axis_that_mlx_vlm_gives_it(name: str) -> None:
    from mlx_vlm.models.rope_utils import mrope_position_selector

    vision = read_model(tiny_models.model(name)).vision
    assert vision is not None
    sections, style = {
        "qwen3_vl": ([4, 2, 2], "interleaved"),
        "qwen3_5_seer": ([2, 1, 1], "interleaved"),
    }.get(name, ([2, 3, 3], "chunked"))
    assert list(vision.axes) == mrope_position_selector(style, sections, sum(sections)).tolist()


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.model(name), tmp_path / name))


@pytest.mark.parametrize("sections", [None, [8], [2, 3, "3"]])
def test_qwen_without_its_three_axes_reads_text(tmp_path: Path, sections: Any) -> None:
    model = copied("qwen2_5_vl", tmp_path)
    change(model, "config.json", rope_scaling={"type": "mrope", "mrope_section": sections})
    assert (
        read_model(model).vision_problem
        == f"its files do not say how it sees: mrope_section is {sections!r}, and not three sizes"
    )


def test_gemma_sees_a_square_of_so_many_cells(tmp_path: Path) -> None:
    model = copied("gemma3_seer", tmp_path)
    vision = read_model(model).vision
    assert vision is not None
    assert (vision.kind, vision.side, vision.cell_size, vision.resample) == ("gemma", 64, 16, 2)
    change(model, "config.json", mm_tokens_per_image=15)
    assert (
        read_model(model).vision_problem
        == "its files do not say how it sees: a square of 64 pixels has no 15 cells"
    )
