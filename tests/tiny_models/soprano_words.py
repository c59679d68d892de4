"""Trains the tiny speech model: `python -m tests.tiny_models.soprano_words DIRECTORY`.

The result, `trained/soprano_words`, has the architecture of Soprano. It says three sentences and the ten
digits with the voice of `mlxctl.probe.speech_samples`: those that `whisper_words` hears. The language model
learns a token for each eighth of a second by gradient descent. The decoder keeps its random layers, whose
states differ in every frame; its last layer, which gives spectra, is solved by least squares. Takes seconds
on one core.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from mlxctl.probe.questions import SPOKEN_SENTENCES

from .command_line import make_from_command_line
from .gradient_descent import descend, print_sometimes, save_weights
from .whisper_words import DIGITS, speech_samples

NUM_STEPS = 60
SAMPLE_RATE = 16_000
_TOKEN_SAMPLES, _HOP, _WINDOW = 2048, 512, 2048
_FRAMES_PER_TOKEN = _TOKEN_SAMPLES // _HOP
_MARKS = ("[STOP]", "[TEXT]", "[START]", "[UNK]")
TEXTS = (*(sentence.lower() for sentence in SPOKEN_SENTENCES), *(f"{digit}." for digit in DIGITS))
_WORDS = tuple(word for text in TEXTS for word in text.rstrip(".").split())
# More than the frames of all texts, as espeak-ng says them: then each can have its own spectrum.
_DECODER_WIDTH = 268
# Drawn layers leave neighbors nearly equal: then no last layer can tell them apart.
_DECODER_INNER_WIDTH, _DECODER_SCALE = 24, 3
_QUIETEST = 1e-4


def make(directory: Path, *, num_steps: int = NUM_STEPS, seed: int = 7) -> float:
    """Train the model into `directory` and return its last loss."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers
    from mlx.utils import tree_map
    from mlx_audio.tts.models.soprano.soprano import Model, ModelConfig

    directory.mkdir(parents=True, exist_ok=True)
    sounds = [_whole_tokens(speech_samples(text)) for text in TEXTS]
    tokenizer, rows = _tokens([len(sound) // _TOKEN_SAMPLES for sound in sounds])
    values = _config(tokenizer)
    _write_files(directory, tokenizer, values)
    mx.random.seed(seed)
    wanted = ModelConfig.from_dict({**values, "model_path": str(directory)})
    # Another voice, or the same one after other texts, may take longer.
    num_frames = sum(_FRAMES_PER_TOKEN * (len(sound) // _TOKEN_SAMPLES) + 1 for sound in sounds)
    wanted.decoder_config.decoder_dim = max(_DECODER_WIDTH, num_frames + 1)
    wanted.decoder_config.decoder_intermediate_dim = _DECODER_INNER_WIDTH
    model = Model(wanted)
    backbone = model.decoder.decoder
    backbone.update(
        tree_map(lambda value: value * _DECODER_SCALE if value.ndim > 1 else value, backbone.parameters())
    )
    optimizer = optimizers.AdamW(learning_rate=3e-3, weight_decay=0.0)

    def loss_of(language_model: Any, ids: mx.array, num_prompt: mx.array) -> mx.array:
        logits = language_model(ids[:, :-1])
        losses = nn.losses.cross_entropy(logits, ids[:, 1:])
        return (losses * (mx.arange(losses.shape[1]) >= num_prompt - 1)).sum() / (ids.shape[1] - num_prompt)

    batches = ((ids[None], num_prompt) for _ in range(num_steps) for ids, num_prompt in rows)
    loss = descend(
        model.language_model,
        loss_of,
        batches,
        optimizer,
        num_steps=num_steps * len(rows),
        report=print_sometimes(num_steps * len(rows)),
    )
    # As they are stored, and then read.
    model.update(_rounded(model))
    _solve_spectra(model, rows, sounds)
    save_weights(model, directory, mx.float16)
    return loss


def _solve_spectra(model: Any, rows: list[tuple[Any, int]], sounds: list[Any]) -> None:
    """Set the decoder's last layer to give the spectra of the sounds."""
    import mlx.core as mx
    from mlx_audio.tts.models.interpolate import interpolate

    states, spectra = [], []
    for (ids, num_prompt), sound in zip(rows, sounds, strict=True):
        # Up to the last token of the sound, before [STOP].
        _, hidden = model._forward_with_hidden_states(mx.array(ids[None, :-1]))
        hidden = hidden[:, num_prompt - 1 :].swapaxes(1, 2)
        num_frames = _FRAMES_PER_TOKEN * (hidden.shape[2] - 1) + 1
        frames = interpolate(hidden, size=num_frames, mode="linear", align_corners=True).swapaxes(1, 2)
        states.append(np.array(model.decoder.decoder(frames)[0]))
        spectra.append(_spectra(sound, num_frames))
    inputs, targets = np.concatenate(states), np.concatenate(spectra)
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    solved = np.linalg.lstsq(inputs, targets)[0].astype(np.float32)
    head = model.decoder.head.out
    head.weight, head.bias = mx.array(solved[:-1].T), mx.array(solved[-1])


def _spectra(sound: Any, num_frames: int) -> Any:
    """Return logarithms of magnitudes, and phases, of each frame."""
    padded = np.pad(sound, (_WINDOW // 2, _WINDOW))
    cut = np.stack([padded[start * _HOP : start * _HOP + _WINDOW] for start in range(num_frames)])
    found = np.fft.rfft(cut * np.hanning(_WINDOW), axis=1)
    return np.concatenate([np.log(np.maximum(abs(found), _QUIETEST)), np.angle(found)], axis=1)


def _whole_tokens(sound: Any) -> Any:
    """Return the sound without silence around it, in whole tokens."""
    (loud,) = np.nonzero(abs(sound) > 0.01)
    sound = sound[loud[0] : loud[-1] + 1]
    return np.pad(sound, (0, -len(sound) % _TOKEN_SAMPLES))


def _tokens(num_tokens: list[int]) -> tuple[Any, list[tuple[Any, int]]]:
    """Return the tokenizer, and for each text its ids.

    They come with the length of the prompt.
    """
    sounds = [[f"<{row}-{place}>" for place in range(count)] for row, count in enumerate(num_tokens)]
    known = (*_MARKS, ".", *_WORDS, *(token for row in sounds for token in row))
    tokenizer = Tokenizer(models.WordLevel({token: number for number, token in enumerate(known)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _MARKS])
    rows = []
    for text, spoken in zip(TEXTS, sounds, strict=True):
        prompt = tokenizer.encode(f"[STOP][TEXT]{text}[START]").ids
        ids = [*prompt, *map(tokenizer.token_to_id, spoken), tokenizer.token_to_id("[STOP]")]
        rows.append((np.array(ids, dtype=np.uint32), len(prompt)))
    return tokenizer, rows


def _config(tokenizer: Any) -> dict[str, Any]:
    return {
        "model_type": "soprano", "sample_rate": SAMPLE_RATE, "hidden_size": 64, "num_hidden_layers": 2,
        "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "max_position_embeddings": 1024,
        "tie_word_embeddings": False, "vocab_size": tokenizer.get_vocab_size(),
    }  # fmt: skip


def _write_files(directory: Path, tokenizer: Any, values: dict[str, Any]) -> None:
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    files = {
        "config.json": values,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[STOP]"},
    }
    for name, value in files.items():
        (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _rounded(model: Any) -> Any:
    import mlx.core as mx
    from mlx.utils import tree_map

    return tree_map(lambda value: value.astype(mx.float16).astype(mx.float32), model.parameters())


if __name__ == "__main__":
    make_from_command_line("soprano_words", __doc__, make, num_steps=NUM_STEPS)
