"""Vision recipes from files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir import VisionRecipe
from mlxctl.library import read_model
from mlxctl.state import installed
from tests import tiny_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "vision_model"))


def change(model: Path, name: str, **changes: Any) -> None:
    value = json.loads((model / name).read_text()) | changes
    (model / name).write_text(json.dumps({key: entry for key, entry in value.items() if entry is not None}))


def test_vision_recipe_has_patch_sizes_and_colors(model: Path) -> None:
    image_token_id = json.loads((model / "config.json").read_text())["image_token_index"]
    assert read_model(model).vision == VisionRecipe(
        family="pixtral",
        image_token_id=image_token_id,
        cell_size=16,
        sizes={"longest_edge": 64},
        mean=(0.5, 0.5, 0.5),
        deviation=(0.25, 0.25, 0.25),
        resample=3,
    )


def test_merged_patches_give_larger_cells(model: Path) -> None:
    change(model, "config.json", model_type="mistral3", spatial_merge_size=2)
    vision = read_model(model).vision
    assert vision is not None
    assert vision.cell_size == 32


def test_missing_image_processor_fields_get_defaults(model: Path) -> None:
    (model / "preprocessor_config.json").unlink()
    vision = read_model(model).vision
    assert vision is not None
    assert (vision.sizes["longest_edge"], vision.mean[0]) == (1024, 0.48145466)


def test_newer_processor_file_takes_precedence(model: Path) -> None:
    (model / "processor_config.json").write_text(
        json.dumps({"image_processor": {"size": {"longest_edge": 128}}})
    )
    vision = read_model(model).vision
    assert vision is not None
    assert vision.sizes == {"longest_edge": 128}


def without_vision_tower(model: Path) -> Path:
    """Drop the weights of the vision tower, as a text conversion does."""
    import mlx.core as mx

    weights: dict[str, Any] = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    kept = {name: weight for name, weight in weights.items() if name.startswith("language_model")}
    mx.save_safetensors(str(model / "model.safetensors"), kept, metadata={"format": "mlx"})
    return model


def test_conversion_without_vision_tower_is_a_text_model(model: Path) -> None:
    assert read_model(without_vision_tower(model)).vision is None


def test_text_model_has_no_vision_problem(model: Path) -> None:
    change(without_vision_tower(model), "config.json", vision_config=None)
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (None, None)


@pytest.mark.parametrize(
    ("model_type", "reason"), [("janus", ""), ("mllama", ": they read images by cross-attention")]
)
def test_unsupported_vision_type_has_a_problem(model: Path, model_type: str, reason: str) -> None:
    change(model, "config.json", model_type=model_type)
    facts = read_model(model)
    assert facts.vision is None
    assert str(facts.vision_problem).startswith(f"images of {model_type} models are not supported{reason}")


def test_adapters_apart_from_the_weights_are_a_problem(tmp_path: Path) -> None:
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.model("phi4mm"), tmp_path / "phi4mm"))
    weights: dict[str, Any] = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    weights["model.layers.0.self_attn.qkv_proj.lora_A.speech.weight"] = mx.zeros((2, 64))
    mx.save_safetensors(str(model / "model.safetensors"), weights, metadata={"format": "mlx"})
    facts = read_model(model)
    for problem in (facts.vision_problem, facts.audio_problem):
        assert "its LoRA adapters for images and audio are apart from its weights" in str(problem)


def test_vision_model_without_packages_serves_text(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("config.json", {"image_token_index": "[IMG]"}, "image_token_index is '[IMG]', not a size"),
        ("config.json", {"vision_config": {}}, "patch_size is None, not a size"),
        ("config.json", {"image_token_index": None}, "image_token_id is None, not a size"),
        ("preprocessor_config.json", {"size": {"longest_edge": 0}}, "longest_edge is 0, not a size"),
        ("preprocessor_config.json", {"image_mean": [0.5]}, "image_mean is [0.5], not three colors"),
        ("preprocessor_config.json", {"resample": 17}, "resample is 17, not a filter"),
    ],
)
def test_malformed_vision_files_serve_text_with_a_problem(
    model: Path, file: str, changes: dict[str, Any], complaint: str
) -> None:
    change(model, file, **changes)
    facts = read_model(model)
    assert (facts.vision, facts.vision_problem) == (
        None,
        f"its files do not describe its image input: {complaint}",
    )


def test_qwen_pixel_limits_are_read_in_both_notations() -> None:
    for name in ("qwen2_vl", "qwen3_vl"):
        vision = read_model(tiny_models.model(name)).vision
        assert vision is not None
        assert (vision.family, vision.cell_size) == ("qwen_vl", 16)
        assert (vision.sizes["min_pixels"], vision.sizes["max_pixels"]) == (256, 16_384)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5_seer"])
def test_rope_axes_match_mlx_vlm(name: str) -> None:
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
def test_qwen_with_malformed_mrope_serves_text(tmp_path: Path, sections: Any) -> None:
    model = copied("qwen2_5_vl", tmp_path)
    change(model, "config.json", rope_scaling={"type": "mrope", "mrope_section": sections})
    assert (
        read_model(model).vision_problem
        == f"its files do not describe its image input: mrope_section is {sections!r}, not three sizes"
    )


def test_gemma_image_is_a_square_of_cells(tmp_path: Path) -> None:
    model = copied("gemma3_seer", tmp_path)
    vision = read_model(model).vision
    assert vision is not None
    assert (vision.family, vision.sizes, vision.cell_size, vision.resample) == ("gemma3", {"side": 64}, 16, 2)
    change(model, "config.json", mm_tokens_per_image=15)
    assert (
        read_model(model).vision_problem
        == "its files do not describe its image input: a square of 64 pixels cannot be divided into 15 cells"
    )
