"""Makes an embedding model of a text model of mlx-lm: the same layers, no head. MLX thread only."""

from collections.abc import Mapping
from typing import Any

_HEAD = "lm_head"
_LAYERS = "model."


def headless_classes(config: Mapping[str, Any]) -> tuple[type[Any], type[Any]]:
    """Return the classes of the model and its arguments for a configuration, as `load_model` of mlx-lm wants them.

    Weights that were saved without a head have no `model.` before their names, which is put there. Raises ValueError for a
    `model_type` that mlx-lm has no code for.
    """
    from mlx_lm.utils import _get_classes

    text_model, arguments = _get_classes(dict(config))

    class HeadlessModel(text_model):  # type: ignore[misc, valid-type]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            self.pop(_HEAD, None)

        def sanitize(self, weights: dict[str, Any]) -> dict[str, Any]:
            if not any(name.startswith(_LAYERS) for name in weights):
                weights = {_LAYERS + name: array for name, array in weights.items()}
            if hasattr(super(), "sanitize"):
                weights = super().sanitize(weights)
            return {name: array for name, array in weights.items() if not name.startswith(_HEAD)}

    return HeadlessModel, arguments
