"""Three-axis positions equal those of mlx-vlm for Qwen, for any slicing."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.multimodal_positions import prompt_segments, shift_at, three_axis_positions
from mlxctl.ir import ProcessedImage
from mlxctl.library import read_model
from tests import tiny_models

CELL = 16
Grids = list[tuple[int, int, int]]
GRIDS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=4)


def laid_out(grids: Grids) -> tuple[list[ProcessedImage], int]:
    """Return images of these grid sizes with text between them.

    The prompt's length comes second.
    """
    images, end = [], 0
    for rows, columns, num_words in grids:
        start = end + num_words + 1
        end = start + rows * columns + 1
        images.append(
            ProcessedImage.of(
                b"",
                start=start,
                num_tokens=rows * columns,
                num_positions=max(rows, columns),
                tiles=((rows * CELL, columns * CELL),),
            )
        )
    return images, end


@pytest.fixture(scope="module")
def language_model() -> Any:
    """Return the mlx-vlm model that computes the positions."""
    import mlx_vlm.utils

    return mlx_vlm.utils.load_model(tiny_models.model("qwen2_5_vl"), lazy=True).language_model


@given(grids=GRIDS, data=st.data())
def test_positions_equal_mlx_vlm_in_every_slice(
    language_model: Any, grids: Grids, data: st.DataObject
) -> None:
    images, end = laid_out(grids)
    config = read_model(tiny_models.model("qwen2_5_vl")).config
    token_ids = np.zeros(end, dtype=np.int32)
    for image in images:
        token_ids[image.start - 1] = config["vision_start_token_id"]
        token_ids[image.start : image.start + image.num_tokens] = config["image_token_id"]
    sizes = mx.array([[1, 2 * rows, 2 * columns] for rows, columns, _ in grids])
    theirs, deltas = language_model.get_rope_index(mx.array(token_ids)[None], sizes)
    cut = data.draw(st.integers(0, end))
    ours = [three_axis_positions(images, *ends, cell_size=CELL) for ends in ((0, cut), (cut, end))]
    np.testing.assert_array_equal(np.concatenate(ours, axis=1), np.array(theirs[:, 0]))
    assert shift_at(images, end) == deltas.item()


@given(grids=GRIDS, data=st.data())
def test_segments_cover_slice_without_gaps(grids: Grids, data: st.DataObject) -> None:
    images, end = laid_out(grids)
    start = data.draw(st.integers(0, end - 1))
    stop = data.draw(st.integers(start + 1, end))
    parts = list(prompt_segments(images, start, stop))
    assert [place for part in parts for place in range(part.start, part.end)] == list(range(start, stop))
    for part in parts:
        owners = [image for image in images if image.start < part.end and part.start < image.end]
        assert owners == ([] if part.image is None else [part.image])
