"""The sound of Kokoro: harmonics, shaped by convolutions. MLX thread only."""

from collections.abc import Generator
from typing import Any

import mlx.core as mx

_SLOPE, _LAST_SLOPE = 0.1, 0.01


def waveform(
    decoder: Any, states: mx.array, pitch: mx.array, loudness: mx.array, style: mx.array
) -> Generator[None, None, mx.array]:
    """Return samples (num_samples,) for states (1, width, frames).

    Pitch and loudness are (1, 2 * frames), `style` is (1, width). Pauses after each block.
    """
    curves = [
        convolution(curve[..., None], mx.conv1d).swapaxes(2, 1)
        for convolution, curve in ((decoder.F0_conv, pitch), (decoder.N_conv, loudness))
    ]
    sound = decoder.encode(mx.concatenate([states, *curves], axis=1), style)
    beside = decoder.asr_res[0](states.swapaxes(2, 1), mx.conv1d).swapaxes(2, 1)
    mx.eval(sound)
    yield
    is_upsampled = False
    for block in decoder.decode:
        given = sound if is_upsampled else mx.concatenate([sound, beside, *curves], axis=1)
        sound = block(given, style)
        is_upsampled = is_upsampled or block.upsample_type != "none"
        mx.eval(sound)
        yield
    return (yield from _generate(decoder.generator, sound, style, pitch))


def _generate(
    generator: Any, sound: mx.array, style: mx.array, pitch: mx.array
) -> Generator[None, None, mx.array]:
    harmonics, _, _ = generator.m_source(generator.f0_upsamp(pitch[:, None].transpose(0, 2, 1)))
    spectrum = mx.concatenate(generator.stft.transform(harmonics[..., 0]), axis=1).swapaxes(2, 1)
    mx.eval(spectrum)
    yield
    num_kernels = generator.num_kernels
    for stage in range(generator.num_upsamples):
        source = generator.noise_convs[stage](spectrum).swapaxes(2, 1)
        source = generator.noise_res[stage](source, style)
        mx.eval(source)
        yield
        sound = mx.where(sound > 0, sound, sound * _SLOPE)
        sound = generator.ups[stage](sound.swapaxes(2, 1), mx.conv_transpose1d).swapaxes(2, 1)
        if stage == generator.num_upsamples - 1:
            sound = generator.reflection_pad(sound)
        sound = sound + source
        mx.eval(sound)
        yield
        mixed: Any = None
        for block in generator.resblocks[stage * num_kernels : (stage + 1) * num_kernels]:
            shaped = block(sound, style)
            mixed = shaped if mixed is None else mixed + shaped
            mx.eval(mixed)
            yield
        sound = mixed / num_kernels
    sound = mx.where(sound > 0, sound, sound * _LAST_SLOPE)
    sound = generator.conv_post(sound.swapaxes(2, 1), mx.conv1d).swapaxes(2, 1)
    num_bins = generator.post_n_fft // 2 + 1
    samples: mx.array = generator.stft.inverse(mx.exp(sound[:, :num_bins]), mx.sin(sound[:, num_bins:]))[0, 0]
    mx.eval(samples)
    return samples
