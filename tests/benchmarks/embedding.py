"""Texts to vectors: our server beside mlx-vlm's own encoder in a process, without any server. The latter is
`python -m tests.benchmarks.embedding MODEL`, which answers each line with the texts per second of one pass.

Both take the same token ids, of many lengths; the yardstick gets them sorted and padded in batches, as who
writes a loop does it.
"""

import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import tiny_models
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, blas_environment, mlxctl_server

_NUM_TEXTS = 256
_LENGTHS = (8, 200)
_ROWS = 32
# HTTP, JSON and slices cost something, and texts of like length together spare padding.
_BAR = 1.0


def texts() -> list[list[int]]:
    """Make up the texts, the same ones in every process."""
    dice = random.Random(5)
    return [[dice.randrange(10, 500) for _ in range(dice.randint(*_LENGTHS))] for _ in range(_NUM_TEXTS)]


def throughput(*, rounds: int) -> Iterator[Finding]:
    """Texts per second of one request, over those of the loop."""
    model = tiny_models.encoder("bert_bench")
    yardstick = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.embedding", str(model)],
        env=blas_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    ours, theirs = [], []
    with mlxctl_server(model) as server:
        for _ in range(1 + rounds):
            ours.append(_served(server))
            theirs.append(_looped(yardstick))
    yardstick.terminate()
    yardstick.wait(10)
    # What is done for the first time takes longer.
    ratio = Ratio.of(ours[1:], theirs[1:])
    detail = f"{max(ours):.0f} of {max(theirs):.0f} texts/s at best, {_NUM_TEXTS} texts of {_LENGTHS[0]} to {_LENGTHS[1]} tokens"
    yield Finding("embeddings, texts/s over mlx-vlm's encoder", ratio, _BAR, True, detail)


def _served(server: Server) -> float:
    body = json.dumps({"model": "default_model", "input": texts(), "encoding_format": "base64"}).encode()
    address = f"http://127.0.0.1:{server.port}/v1/embeddings"
    request = urllib.request.Request(address, body, {"content-type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert len(json.loads(answer.read())["data"]) == _NUM_TEXTS
    return _NUM_TEXTS / (time.perf_counter() - begin)


def _looped(yardstick: "subprocess.Popen[str]") -> float:
    assert yardstick.stdin is not None
    assert yardstick.stdout is not None
    yardstick.stdin.write("\n")
    yardstick.stdin.flush()
    return float(yardstick.stdout.readline())


def _pass(model: Any) -> None:
    import mlx.core as mx

    ordered = sorted(texts(), key=len)
    for start in range(0, len(ordered), _ROWS):
        rows = ordered[start : start + _ROWS]
        width = len(rows[-1])
        padded = mx.array([row + [0] * (width - len(row)) for row in rows])
        seen = mx.array([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        mx.eval(model(padded, attention_mask=seen).text_embeds)


def main(path: str) -> None:
    """Answer until the input ends."""
    from mlx_vlm.embedding_loader import load_embedding_model

    model = load_embedding_model(Path(path))
    for _ in sys.stdin:
        begin = time.perf_counter()
        _pass(model)
        print(_NUM_TEXTS / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
