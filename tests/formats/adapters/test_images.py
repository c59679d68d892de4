"""Image preprocessing equals that of the models' own processors."""

import io
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as checks
from hypothesis import strategies as st
from PIL import Image

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.formats.adapters.media.image_files import MAX_IMAGES
from mlxctl.formats.adapters.request_defaults import RequestDefaults
from mlxctl.ir import CacheBreakpoint, CacheOptions, GenerationRequest, ImagePart, Message, Role, TextPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models

from .requests import decode


def image(width: int = 64, height: int = 64, *, mode: str = "RGB", kind: str = "PNG") -> ImagePart:
    """Return an image with a gradient, different for every size."""
    file = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert(mode).save(file, kind)
    return ImagePart(data=file.getvalue(), media_type=f"image/{kind.lower()}")


def request(*parts: ImagePart | TextPart) -> GenerationRequest:
    return GenerationRequest(model="m", messages=(Message(role="user", parts=parts),), max_tokens=4)


TEXT = TextPart(text="What is it?")
FACTS = read_model(tiny_models.trained("pixtral_colors"))
ADAPTER = create_adapter(FACTS, name="pixtral_colors")


@pytest.fixture(scope="module")
def processor() -> Any:
    """Return the reference processor of the model's kind."""
    from mlx_vlm.models.pixtral.image_processing_pixtral import PixtralImageProcessor

    return PixtralImageProcessor.from_pretrained(str(FACTS.path))


@given(width=st.integers(1, 300), height=st.integers(1, 300))
@checks(max_examples=40)
def test_pixtral_size_and_pixels_equal_the_reference_processor(
    processor: Any, width: int, height: int
) -> None:
    # The reference fails for an image whose shorter side would be less than a pixel.
    assume(max(width, height) <= 64 * min(width, height))
    shown = image(width, height)
    (processed,) = ADAPTER.prepare_input(request(shown, TEXT)).images
    theirs = processor([Image.open(io.BytesIO(shown.data))])
    assert (processed.height, processed.width) == tuple(theirs["image_sizes"][0])
    ours = np.frombuffer(processed.pixels, np.uint8).reshape(processed.height, processed.width, 3) / 255
    np.testing.assert_allclose((ours - 0.5) / 0.25, theirs["pixel_values"][0].transpose(1, 2, 0), atol=1e-5)


QWENS = [name for name in tiny_models.VISION_NAMES if name.startswith("qwen")]


@cache
def vision_adapter(name: str) -> ModelAdapter:
    return create_adapter(read_model(tiny_models.model(name)), name=name)


@pytest.mark.parametrize("name", QWENS)
@given(width=st.integers(1, 400), height=st.integers(1, 400))
@checks(max_examples=25)
def test_qwen_size_and_pixels_equal_the_reference_processor(name: str, width: int, height: int) -> None:
    from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor, _qwen_vl_image_kwargs

    assume(max(width, height) <= 200 * min(width, height))
    adapter, shown = vision_adapter(name), image(width, height)
    prepared = adapter.prepare_input(request(shown, TEXT))
    (processed,), vision = prepared.images, adapter.facts.vision
    assert vision is not None
    theirs = Qwen3VLImageProcessor(**_qwen_vl_image_kwargs(str(adapter.facts.path)))(
        [Image.open(io.BytesIO(shown.data))]
    )
    _, num_rows, num_columns = theirs["image_grid_thw"][0]
    assert (processed.height, processed.width) == (num_rows * 8, num_columns * 8)
    assert (
        processed.num_tokens == num_rows * num_columns // 4 == prepared.token_ids.count(vision.image_token_id)
    )
    assert processed.num_positions == max(num_rows, num_columns) // 2
    colors = np.frombuffer(processed.pixels, np.uint8).reshape(processed.height, processed.width, 3) / 255
    ours = (colors - np.array(vision.mean)) / np.array(vision.deviation)
    first = theirs["pixel_values"][0].reshape(3, 2, 8, 8)[:, 0].transpose(1, 2, 0)
    np.testing.assert_allclose(ours[:8, :8], first, atol=1e-5)
    assert abs(float(ours.sum()) * 2 - float(theirs["pixel_values"].sum())) < 1e-3 * ours.size


@given(width=st.integers(1, 300), height=st.integers(1, 300))
@checks(max_examples=25)
def test_gemma_square_equals_the_reference_processor(width: int, height: int) -> None:
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    adapter, shown = vision_adapter("gemma3_seer"), image(width, height)
    (processed,) = adapter.prepare_input(request(shown, TEXT)).images
    processor = Gemma3ImageProcessorPil.from_pretrained(str(adapter.facts.path))
    theirs = processor([Image.open(io.BytesIO(shown.data))], return_tensors="np")["pixel_values"][0]
    ours = np.frombuffer(processed.pixels, np.uint8).reshape(processed.height, processed.width, 3) / 255
    np.testing.assert_allclose((ours - 0.5) / 0.5, theirs.transpose(1, 2, 0), atol=1e-5)
    assert (processed.num_tokens, processed.is_whole) == (16, True)


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        *((name, "What is it?<|vision_start|>{}<|vision_end|><|im_end|>") for name in QWENS),
        ("gemma3_seer", "What is it?\n\n<start_of_image>{}<end_of_image>\n\n<end_of_turn>"),
    ],
)
def test_image_tokens_are_framed_by_the_models_markers(name: str, frame: str) -> None:
    adapter = vision_adapter(name)
    prepared = adapter.prepare_input(request(TEXT, image()))
    (processed,), vision = prepared.images, adapter.facts.vision
    assert vision is not None
    cell = adapter.vocabulary.bytes_of(vision.image_token_id).decode()
    text = b"".join(map(adapter.vocabulary.bytes_of, prepared.token_ids)).decode()
    assert frame.format(cell * 16) in text
    assert prepared.token_ids[processed.start : processed.start + 16] == (vision.image_token_id,) * 16


@pytest.mark.parametrize("name", tiny_models.VISION_NAMES)
def test_cache_breakpoint_covers_its_image(name: str) -> None:
    messages = (
        Message(role="user", parts=(image(), TEXT)),
        Message(role="assistant", parts=(TEXT,)),
        Message(role="user", parts=(TEXT,)),
    )
    cache = CacheOptions(long_ttl=CacheBreakpoint(ttl_seconds=3600.0, num_tools=0, num_messages=1))
    prepared = vision_adapter(name).prepare_input(
        GenerationRequest(model="m", messages=messages, max_tokens=4, cache=cache)
    )
    (processed,) = prepared.images
    assert processed.end < prepared.num_long_ttl_tokens < len(prepared.token_ids)


def test_qwen_rejects_an_image_of_extreme_ratio() -> None:
    with pytest.raises(
        InvalidRequest,
        match="of 201 x 1 pixels is too long for this model: one side may be 200 times the other",
    ):
        vision_adapter("qwen2_vl").prepare_input(request(image(201, 1), TEXT))


@pytest.mark.parametrize("text", ["<start_of_image>", "<image_soft_token>"])
def test_text_that_spells_an_image_stays_text(text: str) -> None:
    prepared = vision_adapter("gemma3_seer").prepare_input(request(image(), TextPart(text=f"{text}?")))

    assert len(prepared.images) == 1
    assert f"{text}?" in decode(vision_adapter("gemma3_seer"), prepared.token_ids)


def test_thin_image_has_at_least_one_row_of_cells() -> None:
    (processed,) = ADAPTER.prepare_input(request(image(300, 1), TEXT)).images
    assert (processed.height, processed.width) == (16, 64)


def test_image_becomes_a_grid_of_tokens_in_place() -> None:
    prepared = ADAPTER.prepare_input(request(TEXT, image(40, 20), TextPart(text="And this?"), image(16, 16)))
    text = "".join(ADAPTER.vocabulary.bytes_of(token_id).decode() for token_id in prepared.token_ids)
    grid = "[IMG][IMG][IMG][IMG_BREAK][IMG][IMG][IMG][IMG_END]"
    assert text == f"<s>[INST]What is it?{grid}And this?[IMG][IMG_END][/INST]"
    places = [(processed.start, processed.num_tokens) for processed in prepared.images]
    assert [prepared.token_ids[start : start + num][-1] for start, num in places] == [
        ADAPTER.vocabulary.id_of("[IMG_END]")
    ] * 2
    assert [num for _, num in places] == [8, 2]


def test_more_than_64_images_are_read() -> None:
    prepared = ADAPTER.prepare_input(request(*(image(16, 16),) * 100, TEXT))
    assert len(prepared.images) == 100


def test_larger_images_than_the_operators_bound_are_scaled_down() -> None:
    defaults = RequestDefaults(max_image_pixels=2048)
    adapter = create_adapter(FACTS, name="pixtral_colors", request_defaults=defaults)
    small, large = adapter.prepare_input(request(image(16, 16), image(3840, 2160), TEXT)).images
    assert (small.height, small.width) == (16, 16)
    # 60 x 33 pixels, rounded up to cells.
    assert (large.height, large.width) == (48, 64)


def test_unreadable_image_is_named_by_its_place() -> None:
    broken = ImagePart(data=b"GIF89a", media_type="image/gif", param="messages[3].content[1]")
    with pytest.raises(InvalidRequest, match=r"messages\[3\]\.content\[1\]") as refusal:
        ADAPTER.prepare_input(request(image(16, 16), broken, TEXT))
    assert refusal.value.param == "messages[3].content[1]"


def test_images_count_as_prompt_tokens() -> None:
    asked = request(image(), TEXT)
    assert ADAPTER.count_prompt_tokens(asked) == len(ADAPTER.prepare_input(asked).token_ids)


def test_too_many_images_raise() -> None:
    with pytest.raises(InvalidRequest, match=f"a request may have {MAX_IMAGES}"):
        ADAPTER.prepare_input(request(*(image(16, 16),) * (MAX_IMAGES + 1), TEXT))


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_image_outside_user_and_tool_messages_raises(role: Role) -> None:
    asked = GenerationRequest(
        model="m", messages=(Message(role=role, parts=(image(16, 16),)), Message(role="user", parts=(TEXT,)))
    )
    with pytest.raises(
        InvalidRequest, match="images in a user's messages and in tool results only"
    ) as refusal:
        ADAPTER.prepare_input(asked)
    assert refusal.value.param == "messages.0"


def test_vision_problem_is_in_the_error() -> None:
    facts = replace(FACTS, vision=None, vision_problem="images need mlx-vlm")
    blind = create_adapter(facts, name="pixtral_colors")
    with pytest.raises(
        InvalidRequest, match=r"reads text only: it cannot take images \(images need mlx-vlm\)"
    ) as refusal:
        blind.prepare_input(request(image(), TEXT))
    assert refusal.value.param == "messages.0"
    assert "reads text only: images need mlx-vlm" in blind.verdict.summary()
    assert "takes images" in ADAPTER.verdict.summary()


def test_missing_image_tokens_disable_vision() -> None:
    assert FACTS.vision is not None
    verdict = create_adapter(
        replace(FACTS, vision=replace(FACTS.vision, family="gemma3")), name="pixtral_colors"
    ).verdict
    assert (verdict.takes_images, verdict.vision_problem) == (
        False,
        "its tokenizer has no token <start_of_image> for images",
    )


def test_text_model_rejects_images() -> None:
    reader: ModelAdapter = create_adapter(read_model(tiny_models.model("qwen3")), name="qwen3")
    with pytest.raises(InvalidRequest, match="this model reads text only: it cannot take images"):
        reader.prepare_input(request(image(), TEXT))
