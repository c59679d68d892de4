"""Trains the tiny transcription model: `python -m tests.tiny_models.whisper_words DIRECTORY`.

The result, `trained/whisper_words`, has the Whisper architecture with a window of two seconds. Generated
speech (`mlxctl.probe.speech_samples`) of known words and digits varies in speed, loudness and start, with
background noise; the model learns words with timestamps. Takes minutes on one core.
"""

import io
import json
import random
import wave
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.probe.speech_samples import find_synthesizer

from .command_line import make_from_command_line
from .gradient_descent import descend, print_sometimes, save_weights

NUM_STEPS = 2_800
WINDOW_SECONDS = 2
_RATE = 16_000
_STEPS_A_SECOND = 50
_ROWS_PER_STEP = 16
_PEAK_RATE = 3e-3
# The last steps begin again at a lower rate: short digits are learned late.
_REFINING_SHARE, _REFINING_RATE = 3 / 7, 1e-3
_WARMUP_STEPS = 50
_LONGEST_SECONDS = 1.8
_SENTENCES = tuple(sentence.lower().rstrip(".") for sentence in SPOKEN_SENTENCES)
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Up to three of them are a transcript, too."""
_PAUSE_SECONDS = 0.15
# The share of windows that begin with a word.
_AT_ONCE = 0.15
# The shares of windows after earlier text, and of those whose text has times, and its most tokens.
_AFTER_TEXT, _TIMED_TEXT, _CONTEXT_TOKENS = 0.35, 0.6, 28
WORDS = tuple(sorted({word for sentence in _SENTENCES for word in sentence.split()} | {*DIGITS}))
_SPECIAL = (
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|other|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
)  # fmt: skip


def config(tokenizer: Any) -> dict[str, Any]:
    """Return config.json as conversions for MLX write it."""
    return {
        "model_type": "whisper",
        "n_mels": 40,
        "n_audio_ctx": WINDOW_SECONDS * _STEPS_A_SECOND,
        "n_audio_state": 64,
        "n_audio_head": 4,
        "n_audio_layer": 1,
        "n_vocab": tokenizer.get_vocab_size(),
        "n_text_ctx": 64,
        "n_text_state": 64,
        "n_text_head": 4,
        "n_text_layer": 1,
    }


def make(directory: Path, *, num_steps: int = NUM_STEPS, seed: int = 7) -> float:
    """Train the model into `directory` and return its last loss."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers
    from mlx_audio.stt.models.whisper import whisper

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    values = config(tokenizer)
    _write_files(directory, tokenizer, values)
    mx.random.seed(seed)
    model = whisper.Model(whisper.ModelDimensions.from_dict(values), mx.float32)
    model.decoder.positional_embedding = mx.random.normal(model.decoder.positional_embedding.shape) * 0.02
    num_last = round(num_steps * _REFINING_SHARE)
    rates = optimizers.join_schedules(
        [
            optimizers.linear_schedule(0, _PEAK_RATE, _WARMUP_STEPS),
            optimizers.cosine_decay(_PEAK_RATE, num_steps - num_last, end=_PEAK_RATE / 50),
            optimizers.cosine_decay(_REFINING_RATE, max(1, num_last), end=_REFINING_RATE / 50),
        ],
        [_WARMUP_STEPS, max(_WARMUP_STEPS, num_steps - num_last)],
    )
    optimizer = optimizers.AdamW(learning_rate=rates)

    def loss_of(model: Any, spectrograms: mx.array, ids: mx.array, shares: mx.array) -> mx.array:
        logits = model(spectrograms, ids[:, :-1])
        losses: mx.array = nn.losses.cross_entropy(logits, ids[:, 1:]) * shares[:, 1:]
        return losses.sum() / shares.sum()

    dice = random.Random(seed)
    batches = (_batch(tokenizer, dice, num_mels=values["n_mels"]) for _ in range(num_steps))
    loss = descend(model, loss_of, batches, optimizer, num_steps=num_steps, report=print_sometimes(num_steps))
    save_weights(model, directory, mx.float16)
    return loss


def _batch(tokenizer: Any, dice: random.Random, *, num_mels: int) -> tuple[Any, Any, Any]:
    """Return spectrograms, ids, and a mask of learned ids."""
    import mlx.core as mx
    from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram

    spectrograms, rows = [], []
    for _ in range(_ROWS_PER_STEP):
        text = _transcript(dice)
        sound, start, end = _audio_window(text, dice)
        spectrograms.append(log_mel_spectrogram(mx.array(sound), n_mels=num_mels))
        rows.append(_ids(tokenizer, text, start, end, dice))
    width = max(len(ids) for ids, _ in rows)
    padding = tokenizer.token_to_id("<|endoftext|>")
    ids = np.array([ids + [padding] * (width - len(ids)) for ids, _ in rows], dtype=np.uint32)
    shares = np.array([share + [0.0] * (width - len(share)) for _, share in rows], dtype=np.float32)
    return mx.stack(spectrograms), mx.array(ids), mx.array(shares)


def _transcript(dice: random.Random) -> str:
    """Return some words, sometimes none."""
    chance = dice.random()
    if chance < 0.06:
        return ""
    if chance < 0.6:
        return dice.choice(_SENTENCES) if chance < 0.45 else dice.choice(WORDS)
    return " ".join(dice.choices(DIGITS, k=dice.choice((1, 1, 2, 3))))


def _ids(
    tokenizer: Any, text: str, start: float, end: float, dice: random.Random
) -> tuple[list[int], list[float]]:
    """Return a row: words between two timestamps, sometimes after earlier text.

    That of windows before has timestamps, that of a request has none.
    """
    before: list[int] = []
    if dice.random() < _AFTER_TEXT:
        is_timed = dice.random() < _TIMED_TEXT
        for _ in range(dice.choice((1, 1, 2, 3))):
            earlier = _encoded(tokenizer, _transcript(dice))
            if earlier and is_timed:
                times = sorted(dice.uniform(0, WINDOW_SECONDS) for _ in range(2))
                earlier = [_time(tokenizer, times[0]), *earlier, _time(tokenizer, times[1])]
            before += earlier
        before = [tokenizer.token_to_id("<|startofprev|>"), *before[-_CONTEXT_TOKENS:]]
    prompt = [tokenizer.token_to_id(token) for token in ("<|startoftranscript|>", "<|en|>", "<|transcribe|>")]
    written = _encoded(tokenizer, text)
    spoken = [*written, _time(tokenizer, end)] if written else []
    answer = [_time(tokenizer, start), *spoken, tokenizer.token_to_id("<|endoftext|>")]
    return before + prompt + answer, [0.0] * len(before + prompt) + [1.0] * len(answer)


def _encoded(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(" " + text).ids) if text else []


def _time(tokenizer: Any, seconds: float) -> int:
    return int(tokenizer.token_to_id(f"<|{round(seconds * _STEPS_A_SECOND) / _STEPS_A_SECOND:.2f}|>"))


def _audio_window(text: str, dice: random.Random) -> tuple[Any, float, float]:
    """Return a window's samples, and start and end of the words."""
    window = np.random.default_rng(dice.randrange(1 << 30)).normal(
        0, dice.uniform(0, 0.004), WINDOW_SECONDS * _RATE
    )
    if not text:
        return window.astype(np.float32), 0.0, 0.0
    said = _speech(text, dice)
    speed = dice.uniform(0.92, 1.08)
    said = np.interp(np.arange(0, len(said) - 1, speed), np.arange(len(said)), said)[
        : int(_LONGEST_SECONDS * _RATE)
    ]
    first = 0 if dice.random() < _AT_ONCE else dice.randrange(int(WINDOW_SECONDS * _RATE - len(said)))
    window[first : first + len(said)] += said * dice.uniform(0.4, 1.2)
    return window.astype(np.float32), first / _RATE, (first + len(said)) / _RATE


def _speech(text: str, dice: random.Random) -> Any:
    """Return speech; digits are said one by one."""
    words = text.split()
    if not {*words} <= {*DIGITS}:
        return speech_samples(text)
    said = []
    for word in words:
        pause = int(dice.uniform(0, _PAUSE_SECONDS) * _RATE)
        said.append(np.pad(speech_samples(word + dice.choice(("", "."))), (0, pause)))
    return np.concatenate(said)


@cache
def speech_samples(text: str) -> Any:
    """Return generated speech, 16,000 samples per second."""
    synthesize = find_synthesizer()
    assert synthesize is not None, "training needs generated speech: pip install 'mlxctl[espeak]'"
    with wave.open(io.BytesIO(synthesize(text))) as reader:
        said = np.frombuffer(reader.readframes(reader.getnframes()), np.int16) / 32768
        places = np.arange(0, len(said) - 1, reader.getframerate() / _RATE)
    return np.interp(places, np.arange(len(said)), said)


def _tokenizer() -> Any:
    """Return byte-level BPE with a token per word, and Whisper's special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1_000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([f" {word}" for word in WORDS] * 2, trainer)
    times = [f"<|{step / _STEPS_A_SECOND:.2f}|>" for step in range(WINDOW_SECONDS * _STEPS_A_SECOND + 1)]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in times])
    return tokenizer


def _write_files(directory: Path, tokenizer: Any, values: dict[str, Any]) -> None:
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    end = tokenizer.token_to_id("<|endoftext|>")
    files = {
        "config.json": values,
        "generation_config.json": {"eos_token_id": end, "is_multilingual": True},
        "tokenizer_config.json": {"tokenizer_class": "WhisperTokenizer", "eos_token": "<|endoftext|>"},
    }
    for name, value in files.items():
        (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_from_command_line("whisper_words", __doc__, make, num_steps=NUM_STEPS)
