"""Greedy answers of mlx-lm itself, with log-probabilities.

They are computed once for each version of the packages, and cached beside the model: one token of one prompt
at a time takes 20 s of CPU time for 16 prompts on two cores.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tests.tiny_models.directory_cache import in_cache, recipe_digest

NUM_TOKENS = 9
NUM_TOP = 5
_FILE = "answers.json"
# In a process of its own: MLX takes the first BLAS that is loaded, and importing this package imports MLX.
_PROGRAM = """
import sys
from mlxctl.engine.backend import prefer_openblas
prefer_openblas()
from tests.real_models.reference import generate
generate(sys.argv[1], sys.stdin.read())
"""


@dataclass(frozen=True)
class ReferenceAnswer:
    """The first NUM_TOKENS tokens that mlx-lm generates.

    The end token is one like any other. `logprobs` are those of the tokens, `top` the ids of the NUM_TOP most
    likely ones of each position: of numpy's log-softmax in float64 over the logits.
    """

    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    top: list[list[int]]


def reference_answers(model: Path, prompts: Mapping[str, str]) -> dict[str, ReferenceAnswer]:
    """Return the cached answers to questions by name."""
    recipe = [Path(__file__).read_text(encoding="utf-8"), repr(prompts), model.parent.name]
    recipe += [version(package) for package in ("mlx", "mlx-lm", "transformers")]

    def build(directory: Path) -> None:
        answers = {kind: asdict(answer) for kind, answer in generated_answers(model, prompts).items()}
        (directory / _FILE).write_text(json.dumps(answers), encoding="utf-8")

    file = in_cache("mlx-lm-answers", recipe_digest("\n".join(recipe)), build) / _FILE
    return _read(file.read_text(encoding="utf-8"))


def generated_answers(model: Path, prompts: Mapping[str, str | list[int]]) -> dict[str, ReferenceAnswer]:
    """Return the answers to questions and token ids, by name."""
    command = [sys.executable, "-c", _PROGRAM, str(model)]
    done = subprocess.run(command, input=json.dumps(prompts), stdout=subprocess.PIPE, text=True, check=True)
    return _read(done.stdout)


def _read(document: str) -> dict[str, ReferenceAnswer]:
    return {name: ReferenceAnswer(**answer) for name, answer in json.loads(document).items()}


def generate(model: str, document: str) -> None:
    """Print the answers to the prompts of a JSON document."""
    import mlx.core as mx
    import numpy as np
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    network, tokenizer = load(model)[:2]
    answers = {}
    for name, prompt in json.loads(document).items():
        turns = [{"role": "user", "content": prompt}]
        is_text = isinstance(prompt, str)
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True) if is_text else prompt
        answer = ReferenceAnswer(ids, [], [], [])
        for token, scores in generate_step(mx.array(ids), network, max_tokens=NUM_TOKENS):
            # They are logits less a constant, which the log-softmax removes.
            logits = np.asarray(scores, np.float64).reshape(-1)
            logprobs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            answer.token_ids.append(int(token))
            answer.logprobs.append(float(logprobs[int(token)]))
            answer.top.append(np.argsort(-logprobs)[:NUM_TOP].tolist())
        answers[name] = asdict(answer)
    print(json.dumps(answers))
