"""Trains a tiny model to name an image's color: `python -m tests.tiny_models.color_vision`.

Takes a few minutes; the results are in `trained`. Images have one color with a little noise and up to 64
pixels a side; some questions come without an image, and the answer says so. A model that tells orders is also
asked about two images, and about clips whose color changes.
"""

import copy
import importlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from mlxctl.probe.questions import COLORS_QUESTION, VIDEO_QUESTION

from .color_vision_models import CELL_SIZE, COLOR_MODELS, DEVIATION, MEAN, ColorModel, Seen
from .command_line import make_from_command_line
from .families import TEMPLATES
from .gradient_descent import descend, print_sometimes, save_weights
from .vocabulary import train_tokenizer

COLORS = {
    "red": (220, 30, 30),
    "green": (30, 160, 50),
    "blue": (30, 60, 220),
    "yellow": (240, 220, 40),
    "black": (15, 15, 15),
    "white": (245, 245, 245),
}
# The stored weights were trained on these words, so they keep their spelling.
QUESTIONS = (
    "Which colour is this picture? Answer with one word.",
    "What colour is this?",
    "Name the colour.",
    "Tell me the color of the image.",
    "What do you see?",
)
PAIR_QUESTIONS = (COLORS_QUESTION, "Which colors have these images?", "Name both colors.")
CLIP_QUESTIONS = (VIDEO_QUESTION, "Which colors does the video show?", "What do you see, in order?")
NOTHING_SEEN = "I see no picture."
_ROWS_PER_STEP = 16
_NOISE = 12
# The models scale down the frames of a clip to few cells.
_MOST_CLIP_CELLS = 4
_PEAK_RATE = 3e-3


def make(
    directory: Path, *, name: str = "pixtral_colors", num_steps: int | None = None, seed: int = 11
) -> float:
    """Train the named model into `directory`; return its last loss."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers

    spec = COLOR_MODELS[name]
    num_steps = spec.num_steps if num_steps is None else num_steps
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(spec.family)
    values = spec.config(tokenizer)
    _write_files(directory, tokenizer, spec, values)
    mx.random.seed(seed)
    model = _model(spec, values)
    optimizer = optimizers.AdamW(
        learning_rate=optimizers.cosine_decay(_PEAK_RATE, num_steps, end=_PEAK_RATE / 50)
    )

    def loss_of(model: Any, ids: mx.array, shares: mx.array, pixels: mx.array) -> mx.array:
        inputs = spec.embed(model, values, ids[:, :-1], pixels)
        logits = model.language_model(ids[:, :-1], **inputs).logits
        losses: mx.array = nn.losses.cross_entropy(logits, ids[:, 1:]) * shares[:, 1:]
        return losses.sum() / shares.sum()

    dice = random.Random(seed)
    batches = (_batch(spec, tokenizer, dice) for _ in range(num_steps))
    loss = descend(model, loss_of, batches, optimizer, num_steps=num_steps, report=print_sometimes(num_steps))
    save_weights(model, directory, mx.bfloat16)
    return loss


def _model(spec: ColorModel, values: dict[str, Any]) -> Any:
    from mlx_vlm.utils import update_module_configs

    package = importlib.import_module(f"mlx_vlm.models.{spec.package}")
    values = {"text_config": {}, **copy.deepcopy(values)}
    return package.Model(
        update_module_configs(package.ModelConfig.from_dict(values), package, values, ["text", "vision"])
    )


def _batch(spec: ColorModel, tokenizer: Any, dice: random.Random) -> tuple[Any, Any, Any]:
    """Return ids, a mask of learned ids, and images of one size."""
    num_rows, num_columns = dice.choice((1, 2, 4)), dice.choice((1, 2, 4))
    rows: list[tuple[list[int], list[float]]] = []
    images = []
    for _ in range(_ROWS_PER_STEP):
        seen, question, answer, shown = _lesson(spec, dice, num_rows * num_columns)
        image = spec.image_placeholder(num_rows, num_columns, seen=seen)
        parts = [image, question] if dice.random() < 0.5 else [question, image]
        prompt = tokenizer.encode(spec.opening + "".join(parts) + spec.closing).ids
        answer_ids = tokenizer.encode(answer + spec.family.end_tokens[0]).ids
        rows.append((prompt + answer_ids, [0.0] * len(prompt) + [1.0] * len(answer_ids)))
        images += [_image(color, num_rows, num_columns, dice) for color in shown]
    if not images:
        return _batch(spec, tokenizer, dice)
    width = max(len(ids) for ids, _ in rows)
    ids = np.array([ids + [0] * (width - len(ids)) for ids, _ in rows], dtype=np.uint32)
    shares = np.array([share + [0.0] * (width - len(share)) for _, share in rows], dtype=np.float32)
    return ids, shares, np.stack(images)


def _lesson(spec: ColorModel, dice: random.Random, num_cells: int) -> tuple[Seen, str, str, list[str]]:
    """Return what is seen, the question, the answer, and the colors."""
    first, second = dice.sample(list(COLORS), 2)
    chance = dice.random()
    if chance < 0.15:
        return Seen(), dice.choice(QUESTIONS), NOTHING_SEEN, []
    if chance < 0.45 or not spec.tells_order:
        return Seen(num_images=1), dice.choice(QUESTIONS), f"{first.capitalize()}.", [first]
    answer = f"{first.capitalize()}, {second}."
    if chance < 0.7 or num_cells > _MOST_CLIP_CELLS:
        return Seen(num_images=2), dice.choice(PAIR_QUESTIONS), answer, [first, second]
    numbers = dice.choice(((1, 1), (2, 2), (1, 2), (2, 1)))
    shown = [first] * numbers[0] + [second] * numbers[1]
    return Seen(num_groups=len(shown)), dice.choice(CLIP_QUESTIONS), answer, shown


def _image(color: str, num_rows: int, num_columns: int, dice: random.Random) -> Any:
    noise = np.random.default_rng(dice.randrange(1 << 30))
    shape = (num_rows * CELL_SIZE, num_columns * CELL_SIZE, 3)
    base = np.array(COLORS[color]) + noise.integers(-_NOISE, _NOISE + 1, 3)
    pixels = np.clip(base + noise.integers(-3, 4, shape), 0, 255) / 255
    return ((pixels - MEAN) / DEVIATION).astype(np.float32).transpose(2, 0, 1)


def _write_files(directory: Path, tokenizer: Any, spec: ColorModel, values: dict[str, Any]) -> None:
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    (directory / "chat_template.jinja").write_bytes(TEMPLATES[spec.family.template].read_bytes())
    files = {
        "config.json": values,
        "generation_config.json": {"eos_token_id": values["eos_token_id"], "do_sample": False},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": spec.family.bos_token,
            "eos_token": spec.family.end_tokens[0],
            "model_max_length": 2048,
            "clean_up_tokenization_spaces": False,
        },
        "preprocessor_config.json": spec.processor(),
    }
    for name, value in files.items():
        (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_from_command_line("color_vision", __doc__, make, names=tuple(COLOR_MODELS))
