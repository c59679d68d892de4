"""Runs modules of other packages a layer at a time.

Without a copy of their code. MLX thread only.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import mlx.core as mx

T = TypeVar("T")
_Call = tuple[tuple[Any, ...], dict[str, Any]]


class _Recorded(Exception):
    pass


class _Substitute:
    """Is called in place of a layer, whose attributes it has."""

    def __init__(self, layer: Any, call: Callable[..., mx.array]) -> None:
        self._layer, self._call = layer, call

    def __call__(self, *arguments: Any, **options: Any) -> mx.array:
        return self._call(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def by_layers(run: Callable[[], T], *lists: tuple[Any, str]) -> Generator[None, None, T]:
    """Return what `run` returns, with a pause after each layer.

    One layer is evaluated at a time. `run` calls the layers in `lists`, which are attributes of modules, in
    order, each with the states as its first argument. It begins once for each list, to find the arguments of
    its layers, and ends once, with the final states: what it computes before and after the layers has to be
    lazy, and the same each time.
    """
    original = [(owner, name, getattr(owner, name)) for owner, name in lists if getattr(owner, name)]
    try:
        for owner, name, layers in original:
            calls = _calls_of(owner, name, layers, run)
            states = calls[0][0][0]
            mx.eval(states)
            yield
            for layer, ((_, *others), options) in zip(layers, calls, strict=True):
                states = layer(states, *others, **options)
                mx.eval(states)
                yield
            last = partial(_returned, states)
            setattr(owner, name, [_Substitute(layers[0], last)])
        return run()
    finally:
        for owner, name, layers in original:
            setattr(owner, name, layers)


def _returned(states: mx.array, *_: Any, **__: Any) -> mx.array:
    return states


def _calls_of(owner: Any, name: str, layers: Sequence[Any], run: Callable[[], object]) -> list[_Call]:
    """Return the arguments that `run` gives to each layer.

    The states are those of the first layer.
    """
    calls: list[_Call] = []

    def record(states: mx.array, *others: Any, **options: Any) -> mx.array:
        calls.append(((states, *others), options))
        if len(calls) == len(layers):
            raise _Recorded
        return states

    setattr(owner, name, [_Substitute(layer, record) for layer in layers])
    with suppress(_Recorded):
        run()
    return calls
