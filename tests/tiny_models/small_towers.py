"""Smaller towers for classes of mlx-vlm whose sizes are in its code."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch


@contextmanager
def small_towers() -> Iterator[None]:
    """Build and load models with small towers of Gemma 3n and DeepSeek-OCR."""
    from mlx_vlm.models.deepseekocr import config, deepseekocr, sam
    from mlx_vlm.models.gemma3n import vision

    fuse = vision.MobileNetV5MultiScaleFusionAdapter

    def fuse_less(**_: Any) -> Any:
        return fuse(in_chs=[48 + 64], out_chs=32, output_resolution=(4, 4))

    blocks = [
        [vision._er(3, 16, 2)],
        [vision._uir(3, 5, 32, 2, 1.0)],
        [vision._uir(5, 5, 48, 2, 1.0), vision._mmqa(2, 16, 2)],
        [vision._uir(5, 5, 64, 2, 1.0), vision._mmqa(2, 16, 1)],
    ]
    small_sam = partial(config.SAMViTConfig, width=16, layers=1, heads=2, global_attn_indexes=())
    narrow_sam = partial(sam.SAMEncoder, final_out_chans=32)
    with (
        patch.object(vision, "gemma3n_mobilenet_def", lambda: blocks),
        patch.object(vision, "MobileNetV5MultiScaleFusionAdapter", fuse_less),
        patch.object(deepseekocr, "SAMViTConfig", small_sam),
        patch.object(deepseekocr, "SAMEncoder", narrow_sam),
    ):
        yield
