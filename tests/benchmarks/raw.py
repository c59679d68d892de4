"""Raw mlx_lm without a server, in its own process.

`python -m tests.benchmarks.raw MODEL` reads lines `single N` and `batch ROWS N` and answers each with the
decode rate in tokens/s.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.servers import blas_environment

_PROMPT_TOKENS = 24


class Raw:
    """The process that generates with mlx-lm directly."""

    def __init__(self, model: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.raw", str(model)],
            env=blas_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def single(self, num_tokens: int) -> float:
        """Return the decode rate of `mlx_lm.stream_generate`."""
        return self._ask(f"single {num_tokens}")

    def batch(self, num_rows: int, num_tokens: int) -> float:
        """Return the total decode rate of `mlx_lm.generate.BatchGenerator`."""
        return self._ask(f"batch {num_rows} {num_tokens}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _ask(self, line: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def measure_single(model: Any, tokenizer: Any, num_tokens: int) -> float:
    """Return tokens/s after the first token."""
    from mlx_lm import stream_generate

    prompt = list(range(20, 20 + _PROMPT_TOKENS))
    times = [time.perf_counter() for _ in stream_generate(model, tokenizer, prompt, max_tokens=num_tokens)]
    return (len(times) - 1) / (times[-1] - times[0])


def measure_batch(model: Any, num_rows: int, num_tokens: int) -> float:
    """Return tokens/s of all rows after the first step."""
    from mlx_lm.generate import BatchGenerator

    generator = BatchGenerator(
        model,
        max_tokens=num_tokens,
        stop_tokens=[],
        completion_batch_size=num_rows,
        prefill_batch_size=num_rows,
    )
    generator.insert([list(range(20 + row, 20 + row + _PROMPT_TOKENS)) for row in range(num_rows)])
    num, begin, end = 0, None, 0.0
    while True:
        prompts, tokens = generator.next()
        if not prompts and not tokens:
            break
        if tokens:
            end = time.perf_counter()
            num += len(tokens) if begin is not None else 0
            begin = begin if begin is not None else end
    assert begin is not None
    return num / (end - begin)


def main(path: str) -> None:
    """Answer until the input ends."""
    from mlx_lm import load

    model, tokenizer = load(path)[:2]
    for line in sys.stdin:
        kind, *numbers = line.split()
        rate = (
            measure_single(model, tokenizer, int(numbers[0]))
            if kind == "single"
            else measure_batch(model, *map(int, numbers))
        )
        print(rate, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
