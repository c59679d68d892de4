"""The decoder of Qwen3-TTS: frames of several requests become sound together.

MLX thread only. It runs the layers of mlx-audio's decoder, whose state belongs to one request. Here each
request has its state, and the convolutions, which take most of the time, run on all of them at once.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

# Attributes in which mlx-audio's layers keep the end of the last input or output.
_STATES = ("_buffer", "_overflow")


@dataclass(slots=True, kw_only=True)
class CodecState:
    """Where the sound of one request ends.

    It has caches of the transformer, and the ends of the convolutions.
    """

    caches: list[Any]
    ends: list[mx.array | None] = field(default_factory=list)


class Codec:
    """Makes frames audible."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._holders = [
            (module, name)
            for _, module in decoder.named_modules()
            for name in _STATES
            if hasattr(module, name)
        ]

    def begin(self) -> CodecState:
        """Return the state before the first frame."""
        caches = self._decoder.pre_transformer.make_cache()
        return CodecState(caches=caches, ends=[None] * len(self._holders))

    def decode(
        self, states: Sequence[CodecState], codes: mx.array
    ) -> Generator[list[mx.array] | None, None, mx.array]:
        """Return the samples (rows, num_samples) of codes (rows, groups, frames).

        Pauses after each layer. The states change at the end.
        """
        decoder = self._decoder
        ends = [_joined(each) for each in zip(*(state.ends for state in states), strict=True)]
        for (module, name), end in zip(self._holders, ends, strict=True):
            setattr(module, name, end)
        hidden = decoder.pre_conv.step(decoder.quantizer.decode(codes).transpose(0, 2, 1))
        hidden = mx.concatenate(
            [
                decoder.pre_transformer(hidden[row : row + 1], cache=state.caches)
                for row, state in enumerate(states)
            ]
        )
        yield [hidden]
        for transposed, block in decoder.upsample:
            hidden = block.step(transposed(hidden))
        hidden = decoder.decoder[0].step(hidden)
        # Here is most of the work.
        for block in decoder.decoder[1:-2]:
            for layer in block.block:
                hidden = layer.step(hidden) if hasattr(layer, "step") else layer(hidden)
                mx.eval(hidden)
                yield None
        samples = mx.clip(decoder.decoder[-1].step(decoder.decoder[-2](hidden))[..., 0], -1.0, 1.0)
        ends = [getattr(module, name) for module, name in self._holders]
        mx.eval(samples, [end for end in ends if end is not None])
        for row, state in enumerate(states):
            state.ends = [None if end is None else end[row : row + 1] for end in ends]
        for module, name in self._holders:
            setattr(module, name, None)
        return samples


def _joined(ends: Sequence[mx.array | None]) -> mx.array | None:
    """Return the ends of all requests, silence where one has none."""
    known = next((end for end in ends if end is not None), None)
    if known is None:
        return None
    return mx.concatenate([mx.zeros_like(known) if end is None else end for end in ends])
