"""Images become what the model's own processor makes of them, or are refused before anything is loaded."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as checks
from hypothesis import strategies as st
from PIL import Image

from mlxctl.adapters import ModelAdapter, create_adapter
from mlxctl.adapters.pictures import MAX_IMAGES
from mlxctl.errors import InvalidRequest
from mlxctl.ir import GenerationRequest, ImagePart, Message, Role, TextPart
from mlxctl.models import read_model
from tests import forge


def image(width: int = 64, height: int = 64, *, mode: str = "RGB", kind: str = "PNG") -> ImagePart:
    """A picture with a gradient in it, so that no two sizes look the same."""
    file = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert(mode).save(file, kind)
    return ImagePart(data=file.getvalue(), media_type=f"image/{kind.lower()}")


def request(*parts: ImagePart | TextPart) -> GenerationRequest:
    return GenerationRequest(model="m", messages=(Message(role="user", parts=parts),), max_tokens=4)


TEXT = TextPart(text="What is it?")
FACTS = read_model(forge.trained("rowan"))
ADAPTER = create_adapter(FACTS, name="rowan")


@pytest.fixture(scope="module")
def processor() -> Any:
    """The processor that came with the model's kind."""
    from mlx_vlm.models.pixtral.image_processing_pixtral import PixtralImageProcessor

    return PixtralImageProcessor.from_pretrained(str(FACTS.path))


@given(width=st.integers(1, 300), height=st.integers(1, 300))
@checks(max_examples=40)
def test_size_and_pixels_are_those_of_the_models_own_processor(processor: Any, width: int, height: int) -> None:
    # Theirs makes nothing of a picture whose shorter side would be less than a pixel.
    assume(max(width, height) <= 64 * min(width, height))
    shown = image(width, height)
    (picture,) = ADAPTER.prepare_input(request(shown, TEXT)).pictures
    theirs = processor([Image.open(io.BytesIO(shown.data))])
    assert (picture.height, picture.width) == tuple(theirs["image_sizes"][0])
    ours = np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width, 3) / 255
    np.testing.assert_allclose((ours - 0.5) / 0.25, theirs["pixel_values"][0].transpose(1, 2, 0), atol=1e-5)


def test_a_picture_that_is_hardly_more_than_a_line_still_has_a_row_of_cells() -> None:
    (picture,) = ADAPTER.prepare_input(request(image(300, 1), TEXT)).pictures
    assert (picture.height, picture.width) == (16, 64)


def test_a_picture_is_a_grid_of_tokens_where_it_stood() -> None:
    prepared = ADAPTER.prepare_input(request(TEXT, image(40, 20), TextPart(text="And this?"), image(16, 16)))
    text = "".join(ADAPTER.vocabulary.bytes_of(token_id).decode() for token_id in prepared.token_ids)
    grid = "[IMG][IMG][IMG][IMG_BREAK][IMG][IMG][IMG][IMG_END]"
    assert text == f"<s>[INST]What is it?{grid}And this?[IMG][IMG_END][/INST]"
    places = [(picture.start, picture.num_tokens) for picture in prepared.pictures]
    assert [prepared.token_ids[start : start + num][-1] for start, num in places] == [ADAPTER.vocabulary.id_of("[IMG_END]")] * 2
    assert [num for _, num in places] == [8, 2]


def test_the_prompt_is_counted_with_its_pictures() -> None:
    asked = request(image(), TEXT)
    assert ADAPTER.count_prompt_tokens(asked) == len(ADAPTER.prepare_input(asked).token_ids)


@pytest.mark.parametrize(("mode", "kind"), [("RGBA", "PNG"), ("L", "PNG"), ("P", "GIF"), ("RGB", "JPEG"), ("RGB", "WEBP")])
def test_the_usual_kinds_of_files_are_read(mode: str, kind: str) -> None:
    (picture,) = ADAPTER.prepare_input(request(image(32, 16, mode=mode, kind=kind), TEXT)).pictures
    assert len(picture.pixels) == picture.height * picture.width * 3 == 32 * 16 * 3


def _huge() -> ImagePart:
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    return ImagePart(data=file.getvalue(), media_type="image/png")


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ((ImagePart(data=b"GIF89a?", media_type="image/gif"),), "cannot be decoded|is none of"),
        ((ImagePart(data=b"no image", media_type="image/png"),), "is none of PNG, JPEG, WEBP, GIF"),
        ((ImagePart(data=image().data[:60], media_type="image/png"),), "cannot be decoded"),
        ((image(kind="BMP"),), "is none of PNG, JPEG, WEBP, GIF"),
        ((_huge(),), "9000 x 9000 pixels; it may have 50000000"),
        ((image(16, 16),) * (MAX_IMAGES + 1), f"a request may have {MAX_IMAGES}"),
        ((image(), TextPart(text="[IMG]")), r"the text holds '\[IMG\]'"),
    ],
)
def test_what_is_no_picture_or_too_much_is_refused(parts: tuple[ImagePart, ...], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        ADAPTER.prepare_input(request(*parts, TEXT))


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_a_picture_that_neither_a_user_nor_a_tool_shows_is_refused(role: Role) -> None:
    asked = GenerationRequest(model="m", messages=(Message(role=role, parts=(image(16, 16),)), Message(role="user", parts=(TEXT,))))
    with pytest.raises(InvalidRequest, match="images in a user's messages and in tool results only") as refusal:
        ADAPTER.prepare_input(asked)
    assert refusal.value.param == "messages.0"


def test_a_model_of_text_refuses_pictures() -> None:
    reader: ModelAdapter = create_adapter(read_model(forge.model("qwen3")), name="qwen3")
    with pytest.raises(InvalidRequest, match="this model reads text only: it cannot take images"):
        reader.prepare_input(request(image(), TEXT))
