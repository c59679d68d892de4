"""The architectures of the color models, and their image input during training."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlxctl.engine.scheduling.multimodal_positions import three_axis_positions
from mlxctl.ir import ProcessedImage

from .families import Family

CELL_SIZE = 16
"""Pixels per side of an image token."""

MEAN, DEVIATION = 0.5, 0.25
# Positions in time from a group of two frames to the next, with two frames and two positions a second.
_GROUP_TIME = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The images of a question, or its clip's groups of frames."""

    num_images: int = 0
    num_groups: int = 0


class ColorModel(ABC):
    """A model that learns to name colors.

    `package` is that of mlx-vlm, `opening` and `closing` are the texts around a user message. One that
    `tells_order` learns to name two colors in their order.
    """

    family: Family
    package: str
    opening: str
    closing: str
    num_steps: int
    tells_order: bool = False

    @abstractmethod
    def config(self, tokenizer: Any) -> dict[str, Any]:
        """Return the fields of config.json."""

    @abstractmethod
    def processor(self) -> dict[str, Any]:
        """Return the fields of preprocessor_config.json."""

    @abstractmethod
    def image_placeholder(self, num_rows: int, num_columns: int, *, seen: Seen) -> str:
        """Return the prompt's text for images with these cells each."""

    @abstractmethod
    def embed(self, model: Any, values: dict[str, Any], ids: Any, images: Any) -> dict[str, Any]:
        """Return the language model's inputs in place of `ids` [rows, tokens].

        `images` are [n, 3, height, width].
        """


class PixtralColors(ColorModel):
    """Tiny models of the Pixtral architecture."""

    family = Family(
        name="pixtral_colors",
        template="pixtral",
        special_tokens=(
            "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]",
            "[IMG_BREAK]", "[IMG_END]",
        ),
        bos_token="<s>",
        end_tokens=("</s>",),
        config={},
        vocab_size=320,
    )  # fmt: skip
    package = "pixtral"
    opening, closing = "<s>[INST]", "[/INST]"
    num_steps = 700

    def config(self, tokenizer: Any) -> dict[str, Any]:
        text = {
            "model_type": "mistral",
            **_WORDS,
            "head_dim": 16,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
        }
        return {
            "architectures": ["LlavaForConditionalGeneration"],
            "model_type": "pixtral",
            "image_token_index": tokenizer.token_to_id("[IMG]"),
            "eos_token_id": tokenizer.token_to_id("</s>"),
            "vocab_size": self.family.vocab_size,
            "vision_feature_layer": -1,
            "torch_dtype": "bfloat16",
            "text_config": {
                **text,
                "max_position_embeddings": 2048,
                "vocab_size": self.family.vocab_size,
                "tie_word_embeddings": False,
            },
            "vision_config": {
                "model_type": "pixtral",
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "head_dim": 16,
                "intermediate_size": 64,
                "image_size": 128,
                "patch_size": CELL_SIZE,
                "num_channels": 3,
                "rope_theta": 10_000.0,
            },
        }

    def processor(self) -> dict[str, Any]:
        return {
            "image_processor_type": "PixtralImageProcessor",
            "image_mean": [MEAN] * 3,
            "image_std": [DEVIATION] * 3,
            "patch_size": {"height": CELL_SIZE, "width": CELL_SIZE},
            "size": {"longest_edge": 64},
        }

    def image_placeholder(self, num_rows: int, num_columns: int, *, seen: Seen) -> str:
        image = "[IMG_BREAK]".join(["[IMG]" * num_columns] * num_rows) + "[IMG_END]"
        return image * seen.num_images

    def embed(self, model: Any, values: dict[str, Any], ids: Any, images: Any) -> dict[str, Any]:
        sizes = [tuple(images.shape[2:])] * images.shape[0]
        return {"inputs_embeds": model.get_input_embeddings(ids, images, image_sizes=sizes).inputs_embeds}


class Qwen2VLColors(ColorModel):
    """The Qwen2.5-VL architecture: a cell is four patches, positions have three axes."""

    family = Family(
        name="qwen2_5_vl_colors",
        template="qwen_vl",
        special_tokens=(
            "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
            "<|image_pad|>", "<|video_pad|>",
        ),
        bos_token=None,
        end_tokens=("<|im_end|>",),
        config={},
        vocab_size=320,
    )  # fmt: skip
    package = "qwen2_5_vl"
    opening, closing = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    num_steps = 400
    tells_order = True

    def config(self, tokenizer: Any) -> dict[str, Any]:
        ids = {
            "image_token_id": "<|image_pad|>",
            "video_token_id": "<|video_pad|>",
            "vision_start_token_id": "<|vision_start|>",
        }
        return {
            "architectures": ["Qwen2_5_VLForConditionalGeneration"],
            "model_type": "qwen2_5_vl",
            **{name: tokenizer.token_to_id(token) for name, token in ids.items()},
            "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
            "vocab_size": self.family.vocab_size,
            "torch_dtype": "bfloat16",
            **_WORDS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            "vision_config": {
                "model_type": "qwen2_5_vl",
                "depth": 1,
                "hidden_size": 32,
                "intermediate_size": 64,
                "out_hidden_size": 64,
                "num_heads": 2,
                "patch_size": CELL_SIZE // 2,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "in_channels": 3,
                "window_size": 32,
                "fullatt_block_indexes": [0],
            },
        }

    def processor(self) -> dict[str, Any]:
        return {
            "image_processor_type": "Qwen2VLImageProcessor",
            "image_mean": [MEAN] * 3,
            "image_std": [DEVIATION] * 3,
            "patch_size": CELL_SIZE // 2,
            "merge_size": 2,
            "temporal_patch_size": 2,
            "min_pixels": CELL_SIZE**2,
            "max_pixels": 64 * 64,
        }

    def image_placeholder(self, num_rows: int, num_columns: int, *, seen: Seen) -> str:
        num_cells = num_rows * num_columns
        clip = f"<|vision_start|>{'<|video_pad|>' * (num_cells * seen.num_groups)}<|vision_end|>"
        image = f"<|vision_start|>{'<|image_pad|>' * num_cells}<|vision_end|>"
        return image * seen.num_images + (clip if seen.num_groups else "")

    def embed(self, model: Any, values: dict[str, Any], ids: Any, images: Any) -> dict[str, Any]:
        import mlx.core as mx

        num_images, _, height, width = images.shape
        patches = images.reshape(num_images, 3, height // 16, 2, 8, width // 16, 2, 8).transpose(
            0, 2, 5, 3, 6, 1, 4, 7
        )
        patches = mx.repeat(patches[..., None, :, :], 2, axis=-3).reshape(-1, 3 * 2 * 8 * 8)
        seen = model.vision_tower(patches, mx.array([[1, height // 8, width // 8]] * num_images))
        is_cell = (ids == values["image_token_id"]) | (ids == values["video_token_id"])
        places = mx.maximum(mx.cumsum(is_cell.flatten().astype(mx.int32)) - 1, 0)
        words = model.language_model.model.embed_tokens(ids)
        embedded = mx.where(is_cell[..., None], seen[places].reshape(words.shape), words)
        return {
            "inputs_embeds": embedded,
            "position_ids": mx.array(_positions(np.array(is_cell), height, width)),
        }


def _positions(is_cell: Any, height: int, width: int) -> Any:
    """Return positions [3, rows, tokens] of images and clips of one size."""
    num_cells = (height // CELL_SIZE) * (width // CELL_SIZE)
    rows = []
    for cells in is_cell:
        places = np.flatnonzero(cells)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []
        images = [
            ProcessedImage.of(
                b"",
                tiles=((height, width),),
                start=int(run[0]) + number * num_cells,
                num_tokens=num_cells,
                # The next text follows all groups.
                num_positions=0
                if (number + 1) * num_cells < len(run)
                else max(height // CELL_SIZE, width // CELL_SIZE, _GROUP_TIME * number + 1),
                time=_GROUP_TIME * number,
            )
            for run in runs
            for number in range(len(run) // num_cells)
        ]
        rows.append(three_axis_positions(images, 0, len(cells), cell_size=CELL_SIZE))
    return np.stack(rows, axis=1)


_WORDS = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}

COLOR_MODELS: dict[str, ColorModel] = {
    "pixtral_colors": PixtralColors(),
    "qwen2_5_vl_colors": Qwen2VLColors(),
}
