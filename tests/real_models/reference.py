"""Greedy answers of mlx-lm itself, with log-probabilities.

Computed once for each version of the packages, in a process of their own, and cached beside the model: one
token of one prompt at a time takes half a minute on two cores.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.tiny_models.directory_cache import in_cache, recipe_digest

from .prompts import PROMPTS

NUM_TOKENS = 9
NUM_TOP = 5
_FILE = "answers.json"
# MLX takes the first BLAS that is loaded, and importing this package imports MLX.
_PROGRAM = """
import sys
from pathlib import Path
from mlxctl.engine.backend import prefer_openblas
prefer_openblas()
from tests.real_models.reference import generate
generate(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@dataclass(frozen=True)
class ReferenceAnswer:
    """The first NUM_TOKENS tokens that mlx-lm generates, the end token like any other.

    `logprobs` are those of the tokens, `top` the ids of the NUM_TOP most likely ones of each position: of
    numpy's log-softmax in float64 over the logits.
    """

    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    top: list[list[int]]


def reference_answers(model: Path) -> dict[str, ReferenceAnswer]:
    """Return the answers to PROMPTS by kind."""
    recipe = [Path(__file__).read_text(encoding="utf-8"), repr(PROMPTS), model.parent.name]
    recipe += [version(package) for package in ("mlx", "mlx-lm", "transformers")]

    def build(directory: Path) -> None:
        subprocess.run([sys.executable, "-c", _PROGRAM, str(model), str(directory / _FILE)], check=True)

    file = in_cache("mlx-lm-answers", recipe_digest("\n".join(recipe)), build) / _FILE
    return {kind: ReferenceAnswer(**answer) for kind, answer in json.loads(file.read_text()).items()}


def generate(model: Path, file: Path) -> None:
    """Write the answers to the file."""
    import mlx.core as mx
    import numpy as np
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    network, tokenizer = load(str(model))[:2]
    answers = {}
    for kind, text in PROMPTS.items():
        turns = [{"role": "user", "content": text}]
        answer = ReferenceAnswer(tokenizer.apply_chat_template(turns, add_generation_prompt=True), [], [], [])
        for token, scores in generate_step(mx.array(answer.prompt_ids), network, max_tokens=NUM_TOKENS):
            # They are logits less a constant, which the log-softmax removes.
            logits = np.asarray(scores, np.float64).reshape(-1)
            logprobs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            answer.token_ids.append(int(token))
            answer.logprobs.append(float(logprobs[int(token)]))
            answer.top.append(np.argsort(-logprobs)[:NUM_TOP].tolist())
        answers[kind] = vars(answer)
    file.write_text(json.dumps(answers), encoding="utf-8")
