"""Compare imported GGUF files with llama.cpp: next tokens, and tokens of texts.

llama.cpp is that of the package `xllamacpp`, in a virtual environment of its own. It continues prompts
greedily; counted are the tokens that the imported model ranks first at the same place. llama.cpp rounds
activations to 8 bits beside quantized weights, and its keys and values to 16 bits.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import load_model, load_tokenizer

from mlxctl.library.conversion.gguf_import import import_gguf
from tests import tiny_models
from tests.library.conversion.gguf_files import variant_of, write_gguf
from tests.library.conversion.test_gguf_import import TEXTS
from tests.real_models import smollm2
from tests.tiny_models.directory_cache import cache_root

PACKAGE = "xllamacpp==2026.10.11549"
VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama", "llama3", {}),
    ("llama, linear positions", "llama3", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    ("llama, biases", "llama3", {"attention_bias": True, "mlp_bias": True}),
    ("mistral", "mistral", {}),
    ("qwen2", "qwen3", {"model_type": "qwen2"}),
    ("qwen3", "qwen3", {}),
    ("gemma", "gemma3", {"model_type": "gemma"}),
    ("gemma2", "gemma3", {"model_type": "gemma2"}),
    ("gemma3", "gemma3", {}),
)
PROMPTS = ([5, 17, 99, 250, 3, 8, 8, 41], [30, 31, 32, 33, 40, 50, 60, 70, 80, 90])
NUM_TOKENS = 24
_RESULTS = Path(__file__).parents[2] / "bench_results" / "gguf_imports.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many next tokens, and tokenized texts, are those of llama.cpp."""

    model: str
    num_equal_tokens: int
    num_tokens: int
    num_equal_texts: int
    num_texts: int


def main() -> None:
    """Compare, print and perhaps store."""
    parser = argparse.ArgumentParser(prog="python -m tests.llama_cpp", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="GGUF files to compare, too")
    parser.add_argument("--save", action="store_true", help=f"write {_RESULTS.name} into bench_results")
    options = parser.parse_args()
    python = _install(cache_root() / "llama-cpp")
    with tempfile.TemporaryDirectory() as scratch:
        comparisons = []
        for name, file in _files(Path(scratch), options.files):
            comparisons.append(_compare(name, file, Path(scratch) / f"{len(comparisons)}-new", python))
            print(comparisons[-1], flush=True)
    if options.save:
        record = {"llama_cpp": PACKAGE, "models": [asdict(comparison) for comparison in comparisons]}
        _RESULTS.write_text(json.dumps(record, indent=2) + "\n")


def _install(home: Path) -> Path:
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True)
    return python


def _files(scratch: Path, others: list[Path]) -> Iterator[tuple[str, Path]]:
    for number, (name, base, changes) in enumerate(VARIANTS):
        model = tiny_models.model(base)
        if changes:
            model = variant_of(model, scratch / f"{number}-model", changes)
        yield f"{name} (random weights, F32)", write_gguf(model, scratch / f"{number}.gguf", matrices="F32")
    for kind in ("F16", "Q8_0"):
        file = write_gguf(smollm2(), scratch / f"smollm2-{kind}.gguf", matrices=kind, pre="smollm")
        yield f"SmolLM2-135M-Instruct ({kind})", file
    for file in others:
        yield file.name, file


def _compare(name: str, file: Path, target: Path, python: Path) -> Comparison:
    new = import_gguf(file, target, origin=file.name, progress=lambda *_: None).path
    questions = {"prompts": PROMPTS, "num_tokens": NUM_TOKENS, "texts": TEXTS}
    done = subprocess.run(
        [python, Path(__file__).with_name("peer.py"), file],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
    )
    peer = json.loads(done.stdout.splitlines()[-1])
    network, _ = load_model(new)
    # Otherwise the rounding of bfloat16 is compared.
    network.set_dtype(mx.float32)
    tokenizer = load_tokenizer(new)
    num_equal = 0
    for prompt, answer in zip(PROMPTS, peer["answers"], strict=True):
        best: Any = mx.argmax(network(mx.array([prompt + answer[:-1]]))[0, len(prompt) - 1 :], axis=-1)
        num_equal += sum(one == other for one, other in zip(best.tolist(), answer, strict=True))
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    return Comparison(
        model=name,
        num_equal_tokens=num_equal,
        num_tokens=NUM_TOKENS * len(PROMPTS),
        num_equal_texts=sum(one == other for one, other in zip(encoded, peer["texts"], strict=True)),
        num_texts=len(TEXTS),
    )


if __name__ == "__main__":
    main()
