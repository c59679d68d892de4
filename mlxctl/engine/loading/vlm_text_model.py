"""Text models of mlx-vlm's classes, and language parts of multimodal ones.

MLX thread only. Python code of a model directory is never run.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxctl.engine.backend import current_backend
from mlxctl.engine.loading.imports import import_in_thread
from mlxctl.library.runtimes import SELECTIVE_BATCHES, SELECTIVE_PREFIXES
from mlxctl.library.text_config import text_part
from mlxctl.prefix_cache.records import leaves


class VlmTextModel(nn.Module):  # type: ignore[misc]
    """A language model of mlx-vlm, called as those of mlx-lm are.

    Some of its classes evaluate the tokens while a pass is built, so these must be known (`reads_tokens`).
    """

    reads_tokens = True

    def __init__(self, language_model: Any, model_type: str) -> None:
        super().__init__()
        self.language_model = language_model
        self.selects_in_batches = model_type in SELECTIVE_BATCHES
        self.selects_in_prefixes = model_type in SELECTIVE_PREFIXES

    def __call__(
        self,
        token_ids: mx.array,
        cache: Any = None,
        *,
        shifts: mx.array | None = None,
        position_ids: mx.array | None = None,
    ) -> mx.array:
        """Return logits (rows, tokens, vocabulary) for token ids (rows, tokens).

        Where it `takes_positions`, `shifts` (rows,) are added to those of the tokens, or `position_ids` (3,
        rows, tokens) replace them.
        """
        positions = (
            self._positions(token_ids, cache, shifts)
            if position_ids is None
            else {"position_ids": position_ids}
        )
        with _exact_partitions():
            output = self.language_model(token_ids, cache=cache, **positions)
        logits: mx.array = output.logits
        return logits

    def make_cache(self) -> list[Any]:
        """Return empty caches of a sequence; mlx-lm calls this."""
        if hasattr(self.language_model, "make_cache"):
            return list(self.language_model.make_cache())
        from mlx_vlm.models.cache import KVCache

        return [KVCache() for _ in self.language_model.layers]

    @property
    def layers(self) -> Any:
        """The decoder layers."""
        return self.language_model.layers

    @property
    def takes_positions(self) -> bool:
        """Whether its class has positions of images."""
        return hasattr(self.language_model, "_rope_deltas")

    def _positions(self, token_ids: mx.array, cache: Any, shifts: mx.array | None) -> dict[str, mx.array]:
        """Return the tokens' positions, for a class with positions of images.

        It remembers those of the last prompt in itself: another one's, where requests take turns.
        """
        if not self.takes_positions or cache is None:
            return {}
        # The offset of a pooling layer (`ratio`) counts pools.
        offset = next(
            layer.offset
            for layer in leaves(cache)
            if hasattr(layer, "offset") and not hasattr(layer, "ratio")
        )
        num_rows, num_tokens = token_ids.shape
        first = mx.maximum(mx.array(offset), 0).reshape(-1, 1)
        if shifts is not None:
            first = first + shifts.reshape(-1, 1)
        # Axes of images, in the classes that have them: (3, rows, tokens), else (rows, tokens).
        axes = self.language_model.get_rope_index(token_ids[:1, :1])[0].shape[:-2]
        return {"position_ids": mx.broadcast_to(first + mx.arange(num_tokens), (*axes, num_rows, num_tokens))}


@contextmanager
def _exact_partitions() -> Iterator[None]:
    """Build a pass without compiled functions on CPUs.

    NOTE: MLX 0.32.4 compiles `argpartition` for any shape with the place of the first one, so sparse
    attention chooses wrong tokens. Metal sorts instead.
    """
    is_exact = current_backend().name != "cpu"
    if not is_exact:
        mx.disable_compile()
    try:
        yield
    finally:
        if not is_exact:
            mx.enable_compile()


def load_vlm_text_model(path: Path) -> Generator[int, None, tuple[VlmTextModel, dict[str, Any]]]:
    """Return the text model at `path` and its configuration.

    Weights are not yet read. Yields while its packages are imported. Raises LOAD_ERRORS.
    """
    config = json.loads((path / "config.json").read_text(encoding="utf-8-sig"))
    _refuse_other_files(path, config)
    for _ in import_in_thread("mlx_vlm.utils"):
        yield 0
    from mlx_vlm.utils import get_model_type, load_model

    for _ in import_in_thread(f"mlx_vlm.models.{get_model_type(config)}"):
        yield 0
    with no_code_of_models():
        whole = load_model(path, lazy=True)
    language_model = getattr(whole, "language_model", None)
    # Those of encoders with decoders are numbers.
    layers = getattr(language_model, "layers", None)
    if not (layers and all(isinstance(layer, nn.Module) for layer in layers)):
        raise ValueError(
            f"mlx-vlm's class for model_type {config.get('model_type')!r} has no language model that writes "
            "token by token"
        )
    return VlmTextModel(language_model, str(config.get("model_type"))), config


def _refuse_other_files(path: Path, config: dict[str, Any]) -> None:
    """Raise ValueError if weights are in files that are not read whole."""
    if (path / "offload_index.json").exists():
        raise ValueError(
            "its experts are split for offloading (offload_index.json): use the original weights"
        )
    storage = text_part(config).get("ple_storage")
    manifest = storage.get("manifest") if isinstance(storage, dict) else None
    # SEC: a configuration must not choose which files of this machine are read.
    if manifest and path.resolve() not in (path / str(manifest)).resolve().parents:
        raise ValueError("ple_storage in its config.json names a file outside of the directory")


@contextmanager
def no_code_of_models() -> Iterator[None]:
    """Make mlx-vlm refuse a config.json that names Python code.

    It has no option for that.
    """
    from mlx_vlm import utils

    find_classes = utils.get_model_and_args

    def find_own_classes(config: dict[str, Any], model_path: Path | None = None) -> Any:  # noqa: ARG001
        # SEC: the config that was just read, since the file may have changed after it was checked.
        if config.get("model_file"):
            raise ValueError("its config.json names Python code (model_file)")
        return find_classes(config=config)

    utils.get_model_and_args = find_own_classes
    try:
        yield
    finally:
        utils.get_model_and_args = find_classes
