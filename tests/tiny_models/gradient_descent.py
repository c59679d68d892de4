"""Training of tiny models: gradient descent with clipped gradients."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

Report = Callable[[int, float], None]
"""Called after each step with its number, from 1, and its loss."""


def descend(
    model: Any,
    loss_of: Callable[..., Any],
    batches: Iterable[Iterable[Any]],
    optimizer: Any,
    *,
    num_steps: int,
    report: Report,
) -> float:
    """Train for `num_steps` batches of `loss_of(model, *batch)`; return the last loss.

    Batches are arrays of numpy or mlx.
    """
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers

    loss_and_gradient = nn.value_and_grad(model, loss_of)
    last = 0.0
    for step, batch in enumerate(islice(batches, num_steps), start=1):
        loss, gradient = loss_and_gradient(model, *map(mx.array, batch))
        gradient, _ = optimizers.clip_grad_norm(gradient, 1.0)
        optimizer.update(model, gradient)
        mx.eval(model.parameters(), optimizer.state, loss)
        last = float(loss.item())
        report(step, last)
    return last


def print_sometimes(num_steps: int) -> Report:
    """Return a report that prints every 25th step."""

    def report(step: int, loss: float) -> None:
        if step % 25 == 1:
            print(f"step {step} of {num_steps}: loss {loss:.3f}", flush=True)

    return report


def save_weights(model: Any, directory: Path, dtype: Any) -> None:
    """Write the model's parameters as `model.safetensors`, in this type."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    weights = {name: value.astype(dtype) for name, value in tree_flatten(model.parameters())}
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
