"""A model that claims to see is shown images, and believed only when it names what is on them."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from mlxctl.ir import FinishReason, Message, TextPart, TextResult, ThinkingPart, Usage
from mlxctl.probe.image_check import judge, one_color_png
from mlxctl.stores import CapabilityStore, Finding
from tests import tiny_models

from .conftest import probed, target


def sees(model: Path, store: CapabilityStore) -> Finding:
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    found = outcome.record.finding("vision")
    assert found is not None
    return found


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    """The model that sees, with nothing behind its eyes."""
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "blind"))
    weights = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    for name in weights:
        if name.startswith("multi_modal_projector"):
            weights[name] = mx.zeros_like(weights[name])
    mx.save_safetensors(str(model / "model.safetensors"), weights, metadata={"format": "mlx"})
    return model


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pixtral_colors", "[IMG][IMG][IMG][IMG][IMG_BREAK]"),
        ("qwen2_5_vl_colors", f"<|vision_start|>{'<|image_pad|>' * 16}<|vision_end|>"),
    ],
)
def test_a_model_that_names_every_color_sees(name: str, shown: str, store: CapabilityStore) -> None:
    found = sees(tiny_models.trained(name), store)
    assert (found.verdict, found.reason) == ("yes", "named the color of 3 images of 3")
    assert [exchange.output for exchange in found.exchanges] == ["Red.", "Green.", "Blue."]
    assert shown in found.exchanges[0].prompt


def test_a_model_whose_eyes_do_nothing_does_not(blind: Path, store: CapabilityStore) -> None:
    found = sees(blind, store)
    assert found.verdict == "no"
    assert found.reason in {f"named the color of {number} images of 3" for number in (0, 1)}


def test_the_picture_is_a_file_that_others_read(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(one_color_png((1, 2, 3), side=5))
    read = Image.open(tmp_path / "image.png")
    assert (read.size, read.mode, read.getcolors()) == ((5, 5), "RGB", [(25, (1, 2, 3))])


def said(text: str, *, thought: str = "", reason: FinishReason = "stop") -> TextResult:
    parts = (*([ThinkingPart(text=thought)] if thought else []), TextPart(text=text))
    return TextResult(
        message=Message(role="assistant", parts=parts), reason=reason, usage=Usage(num_prompt_tokens=1)
    )


RIGHT = [said("Red."), said("It is green!"), said("BLUE")]


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        (RIGHT, "yes"),
        ([said("", thought="The image is red all over"), *RIGHT[1:]], "yes"),
        ([said("It is red.", thought="Not green, not blue."), *RIGHT[1:]], "yes"),
        ([said("It shows nothing", thought="all red"), *RIGHT[1:]], "yes"),
        ([said("red"), said("red"), said("red")], "no"),
        ([said("red, green or blue")] * 3, "no"),
        ([said("A cat.")] * 3, "no"),
        ([said("", thought="Let me see", reason="length"), *RIGHT[1:]], "unknown"),
    ],
)
def test_only_who_names_each_color_is_believed(results: list[TextResult], verdict: str) -> None:
    assert judge(results)[0] == verdict
