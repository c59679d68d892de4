"""Smaller towers for classes of mlx-vlm whose sizes are in its code."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch


@contextmanager
def small_towers() -> Iterator[None]:
    """Build and load models with small towers of Gemma 3n and DeepSeek-OCR."""
    import mlx.nn as nn
    from mlx_vlm.models.deepseekocr import config, deepseekocr, sam
    from mlx_vlm.models.gemma3n import vision

    fuse = vision.MobileNetV5MultiScaleFusionAdapter

    def fuse_less(**_: Any) -> Any:
        return fuse(in_chs=[48 + 64], out_chs=32, output_resolution=(4, 4))

    def narrow_sam(**sizes: Any) -> Any:
        encoder = sam.SAMEncoder(**sizes, out_chans=16)
        encoder.net_2 = nn.Conv2d(16, 16, kernel_size=3, stride=2, padding=1, bias=False)
        encoder.net_3 = nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1, bias=False)
        return encoder

    blocks = [
        [vision._er(3, 16, 2)],
        [vision._uir(3, 5, 32, 2, 1.0)],
        [vision._uir(5, 5, 48, 2, 1.0), vision._mmqa(2, 16, 2)],
        [vision._uir(5, 5, 64, 2, 1.0), vision._mmqa(2, 16, 1)],
    ]
    small_sam = partial(config.SAMViTConfig, width=16, layers=1, heads=2, global_attn_indexes=())
    with (
        patch.object(vision, "gemma3n_mobilenet_def", lambda: blocks),
        patch.object(vision, "MobileNetV5MultiScaleFusionAdapter", fuse_less),
        patch.object(deepseekocr, "SAMViTConfig", small_sam),
        patch.object(deepseekocr, "SAMEncoder", narrow_sam),
    ):
        yield
