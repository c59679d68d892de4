"""A model that calls the tool it is told to.

After a prompt of any length, for clients with very long instructions. It is the demo model with a short
window in every attention layer (`exaone_moe` without experts is Qwen3 with windows), trained on for a few
minutes: for `Call the tool NAME with ARGUMENT set to `VALUE`.` it writes that call, and after a tool result
it repeats the result. Tokens beyond the window have no effect, so 50,000 tokens of instructions do not
disturb it. `python -m tests.tiny_models.tool_caller DIRECTORY` trains it.
"""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlxctl.library.demo import MODEL_DIR

from .command_line import make_from_command_line
from .gradient_descent import descend, print_sometimes, save_weights

WINDOW = 256
CONTEXT_LENGTH = 131_072
NUM_STEPS = 180
_NUM_TOKENS_PER_STEP = 2_048
_PEAK_RATE = 8e-4
_SEED = 23
_ROOT = Path(__file__).parents[2]
_NOISE_FILES = ("README.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", "tools/demo_model/tools.toml")
_WORDS = (
    "hello", "world", "notes", "report", "alpha", "river", "stone", "green", "seven", "list", "status",
    "main", "done", "ready", "check", "build", "test", "data", "value", "file", "name", "output", "result",
    "summary", "daily", "backup", "paper", "orange", "winter", "garden", "table", "window", "market",
)  # fmt: skip
_PROGRAMS = (
    "echo",
    "echo",
    "echo",
    "printf",
    "ls",
    "cat",
    "ls -la",
    "pwd",
    "date",
    "wc -l",
    "head -n 3",
    "git status",
    "uname",
)
_VERBS = (
    "exec",
    "run",
    "shell",
    "bash",
    "read",
    "file",
    "search",
    "fetch",
    "write",
    "call",
    "web",
    "list",
    "get",
    "open",
    "do",
)
_ARGUMENTS = (
    "cmd",
    "command",
    "path",
    "query",
    "input",
    "text",
    "file",
    "script",
    "code",
    "line",
    "url",
    "argument",
    "name",
)
_WITHOUT_THINKING = "<think>\n\n</think>\n\n"


def config() -> dict[str, Any]:
    """Return the demo model's architecture with windows."""
    base = json.loads((MODEL_DIR / "config.json").read_text())
    num_layers = base["num_hidden_layers"]
    return {
        **base,
        "architectures": ["ExaoneMoEForCausalLM"],
        "model_type": "exaone_moe",
        "max_position_embeddings": CONTEXT_LENGTH,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention"] * num_layers,
        "is_moe_layer": [False] * num_layers,
        "moe_intermediate_size": 0,
        "num_experts": 0,
        "num_experts_per_tok": 0,
        "num_shared_experts": 0,
    }


class ConversationGenerator:
    """Draws conversations: noise, an order, the call, perhaps result and answer."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._noise = "\n".join((_ROOT / name).read_text(encoding="utf-8") for name in _NOISE_FILES)

    def turn(self) -> list[tuple[str, bool]]:
        """Return pieces of text, each with whether it is learned."""
        dice = self._dice
        name, argument, value = self._tool_name(), self._argument(), self._value()
        order = f"Call the tool {name} with {argument} set to `{value}`."
        head = dice.choice(("", "<|im_start|>system\n")) + self._some_noise()
        pieces = [(f"{head}{dice.choice(('', '<|im_end|>'))}\n<|im_start|>user\n", False)]
        if dice.random() < 0.5:
            pieces.append(
                (
                    self._some_noise()
                    + dice.choice(("\n", "</system-reminder>\n", "</system-reminder>", "")),
                    False,
                )
            )
        pieces.append((f"{order}<|im_end|>\n<|im_start|>assistant\n", False))
        is_plain = dice.random() < 0.5
        pieces.append((_WITHOUT_THINKING, not is_plain))
        call = json.dumps({"name": name, "arguments": {argument: value}}, ensure_ascii=False)
        pieces.append((f"<tool_call>\n{call}\n</tool_call><|im_end|>", True))
        if dice.random() < 0.6:
            line = self._value() if dice.random() < 0.5 else value.removeprefix("echo ")
            result = self._result_head() + line + self._result_tail()
            pieces.append(
                (
                    f"\n<|im_start|>user\n<tool_response>\n{result}\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
                    False,
                )
            )
            pieces.append((_WITHOUT_THINKING, not is_plain))
            pieces.append((f"The output is: {line}<|im_end|>", True))
        return pieces

    def _some_noise(self) -> str:
        length = self._dice.choice((0, 0, 40, 150, 300, 800))
        start = self._dice.randrange(len(self._noise) - 800)
        return self._noise[start : start + length]

    def _result_head(self) -> str:
        dice = self._dice
        if dice.random() < 0.5:
            return ""
        numbers = [dice.randrange(10 ** dice.randint(1, 5)) for _ in range(4)]
        return (
            f"Chunk ID: {dice.randrange(16**6):06x}\nWall time: {numbers[0] / 1e4:.4f} seconds\n"
            f"Process exited with code {numbers[1] % 3}\nOriginal token count: {numbers[2] % 40}\nOutput:\n"
        )

    def _result_tail(self) -> str:
        dice = self._dice
        if dice.random() < 0.5:
            return dice.choice(("", "", "\n"))
        reminder = (
            f"<total_tokens>{dice.randrange(10**8)} tokens left</total_tokens>"
            if dice.random() < 0.6
            else self._value()
        )
        return f"\n\n<system-reminder>\n{reminder}\n</system-reminder>"

    def _tool_name(self) -> str:
        words = [self._dice.choice((*_VERBS, *_WORDS)) for _ in range(self._dice.choice((1, 1, 2, 3)))]
        if self._dice.random() < 0.4:
            return "".join(word.capitalize() for word in words)
        return self._dice.choice(("_", "_", "-", "")).join(words)

    def _argument(self) -> str:
        return self._dice.choice(_ARGUMENTS) if self._dice.random() < 0.7 else self._dice.choice(_WORDS)

    def _value(self) -> str:
        dice = self._dice
        words = [self._word() for _ in range(dice.choice((0, 1, 1, 2, 2, 3)))]
        program = [dice.choice(_PROGRAMS)] if dice.random() < 0.8 or not words else []
        return " ".join(program + words)

    def _word(self) -> str:
        dice = self._dice
        word = dice.choice(_WORDS)
        if dice.random() < 0.4:
            word = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 8)))
        return dice.choice(
            (
                word,
                word,
                word,
                f"{word}.txt",
                f"{word}-{dice.randrange(1000)}",
                str(dice.randrange(10**5)),
                f"/tmp/{word}",
            )
        )


def make(directory: Path, *, num_steps: int = NUM_STEPS, seed: int = _SEED) -> float:
    """Train the model into `directory` and return its last loss."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers
    from mlx_lm.models import exaone_moe

    model = exaone_moe.Model(exaone_moe.ModelArgs.from_dict(config()))
    weights = mx.load(str(MODEL_DIR / "model.safetensors"))
    model.load_weights([(name, weight.astype(mx.float32)) for name, weight in weights.items()])
    optimizer = optimizers.AdamW(
        learning_rate=optimizers.cosine_decay(_PEAK_RATE, num_steps, end=_PEAK_RATE / 50), betas=[0.9, 0.97]
    )

    def loss_of(model: Any, inputs: mx.array, targets: mx.array, shares: mx.array) -> mx.array:
        losses: mx.array = nn.losses.cross_entropy(model(inputs), targets) * shares
        return losses.sum() / shares.sum()

    loss = descend(
        model, loss_of, _batches(seed), optimizer, num_steps=num_steps, report=print_sometimes(num_steps)
    )
    _write_files(directory)
    save_weights(model, directory, mx.bfloat16)
    return loss


def _batches(seed: int) -> Iterator[tuple[list[list[int]], list[list[int]], list[list[float]]]]:
    """Yield inputs, targets and weights, rows of similar length together."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODEL_DIR / "tokenizer.json"))
    generator, dice = ConversationGenerator(seed), random.Random(seed + 1)
    while True:
        rows = sorted((_row(tokenizer, generator.turn()) for _ in range(128)), key=lambda row: len(row[0]))
        groups: list[list[tuple[list[int], list[float]]]] = [[]]
        for row in rows:
            if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > _NUM_TOKENS_PER_STEP:
                groups.append([])
            groups[-1].append(row)
        dice.shuffle(groups)
        for group in groups:
            width = max(len(ids) for ids, _ in group)
            padded = [
                (ids + [0] * (width - len(ids)), shares + [0.0] * (width - len(ids))) for ids, shares in group
            ]
            yield (
                [ids[:-1] for ids, _ in padded],
                [ids[1:] for ids, _ in padded],
                [shares[1:] for _, shares in padded],
            )


def _row(tokenizer: Any, pieces: list[tuple[str, bool]]) -> tuple[list[int], list[float]]:
    ids: list[int] = []
    shares: list[float] = []
    for text, is_learned in pieces:
        piece = tokenizer.encode(text).ids
        ids += piece
        shares += [float(is_learned)] * len(piece)
    return ids, shares


def _write_files(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "chat_template.jinja"):
        shutil.copyfile(MODEL_DIR / name, directory / name)
    for name, changes in (
        ("config.json", config()),
        ("generation_config.json", {"do_sample": False, "temperature": 0.0}),
        ("tokenizer_config.json", {"model_max_length": CONTEXT_LENGTH}),
    ):
        base = json.loads((MODEL_DIR / name).read_text())
        (directory / name).write_text(json.dumps(base | changes, indent=2) + "\n", encoding="utf-8")


def make_in_own_process(directory: Path) -> None:
    """Train the model in a child process, with OpenBLAS.

    MLX is not loaded in this process.
    """
    subprocess.run(
        [sys.executable, "-m", "tests.tiny_models.tool_caller", str(directory)], cwd=_ROOT, check=True
    )


if __name__ == "__main__":
    make_from_command_line("tool_caller", __doc__, make, num_steps=NUM_STEPS)
