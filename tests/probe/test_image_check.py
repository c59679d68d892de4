"""Test of vision: a model passes only if it names every color."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from mlxctl.ir import FinishReason, Message, TextPart, TextResult, ThinkingPart, Usage
from mlxctl.probe.image_check import judge, judge_pairs, one_color_png
from mlxctl.state.stores import CapabilityStore, Finding
from tests import tiny_models

from .conftest import probed, target


def findings(model: Path, store: CapabilityStore) -> dict[str, Finding]:
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    return {finding.question: finding for finding in outcome.record.findings}


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    """Return the vision model with a disabled image encoder."""
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "blind"))
    weights = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    for name in weights:
        if name.startswith("multi_modal_projector"):
            weights[name] = mx.zeros_like(weights[name])
    mx.save_safetensors(str(model / "model.safetensors"), weights, metadata={"format": "mlx"})
    return model


@pytest.mark.parametrize(
    ("name", "shown", "video", "tells_order"),
    [
        ("pixtral_colors", "[IMG][IMG][IMG][IMG][IMG_BREAK]", "[IMG_END][IMG]", "no"),
        (
            "qwen2_5_vl_colors",
            f"<|vision_start|>{'<|image_pad|>' * 16}<|vision_end|>",
            f"<|vision_start|>{'<|video_pad|>' * 4}",
            "yes",
        ),
    ],
)
def test_model_that_names_every_color_has_vision(
    name: str, shown: str, video: str, tells_order: str, store: CapabilityStore
) -> None:
    found = findings(tiny_models.trained(name), store)
    vision = found["vision"]
    assert (vision.verdict, vision.reason) == ("yes", "named the color of 3 images of 3")
    assert [exchange.output for exchange in vision.exchanges] == ["Red.", "Green.", "Blue."]
    assert shown in vision.exchanges[0].prompt
    assert "videos of 2 in order" in found["video"].reason
    assert (found["multi_image"].verdict, found["video"].verdict) == (tells_order, tells_order)
    assert video in found["video"].exchanges[0].prompt


def test_model_with_disabled_encoder_has_no_vision(blind: Path, store: CapabilityStore) -> None:
    found = findings(blind, store)["vision"]
    assert found.verdict == "no"
    assert found.reason in {f"named the color of {number} images of 3" for number in (0, 1)}


def test_png_is_readable_by_pillow(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(one_color_png((1, 2, 3), side=5))
    read = Image.open(tmp_path / "image.png")
    assert (read.size, read.mode, read.getcolors()) == ((5, 5), "RGB", [(25, (1, 2, 3))])


def answer(text: str, *, transcript_on: str = "", reason: FinishReason = "stop") -> TextResult:
    parts = (*([ThinkingPart(text=transcript_on)] if transcript_on else []), TextPart(text=text))
    return TextResult(
        message=Message(role="assistant", parts=parts), reason=reason, usage=Usage(num_prompt_tokens=1)
    )


RIGHT = [answer("Red."), answer("It is green!"), answer("BLUE")]


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        (RIGHT, "yes"),
        ([answer("", transcript_on="The image is red all over"), *RIGHT[1:]], "yes"),
        ([answer("It is red.", transcript_on="Not green, not blue."), *RIGHT[1:]], "yes"),
        ([answer("It shows nothing", transcript_on="all red"), *RIGHT[1:]], "yes"),
        ([answer("red"), answer("red"), answer("red")], "no"),
        ([answer("red, green or blue")] * 3, "no"),
        ([answer("A cat.")] * 3, "no"),
        ([answer("", transcript_on="Let me see", reason="length"), *RIGHT[1:]], "unknown"),
    ],
)
def test_vision_needs_every_color(results: list[TextResult], verdict: str) -> None:
    assert judge(results)[0] == verdict


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (("Blue and red.", "red, then green"), "yes"),
        (("red and blue", "red, then green"), "no"),
        (("Blue.", "Red."), "no"),
        (("blue, red, green",) * 2, "no"),
    ],
)
def test_several_images_need_their_colors_in_order(texts: tuple[str, str], verdict: str) -> None:
    assert judge_pairs([answer(text) for text in texts])[0] == verdict
