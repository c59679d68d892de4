"""Speech synthesis for tests: by macOS `say`, or else by espeak-ng."""

import ctypes
import io
import subprocess
import tempfile
import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import which

from mlxctl.ir.errors import NoVoice
from mlxctl.state.installed import missing_for

NO_SYNTHESIZER = (
    "no speech synthesizer is installed: macOS has say; elsewhere, pip install 'mlxctl[espeak]' (espeak-ng)"
)
_SYNTHESIS_SECONDS = 60.0

# Constants of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _NO_EVENTS_BUFFER, _DONT_EXIT = 2, 0, 0x8000
_BY_CHARACTER, _UTF8 = 1, 1
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

Synthesizer = Callable[[str], bytes]


def find_synthesizer() -> Synthesizer | None:
    """Return a function from English text to WAV bytes, or None.

    The function raises NoVoice when synthesis fails.
    """
    if which("say") is not None:
        return _synthesize_macos
    return _synthesize_espeak if missing_for("espeak") is None else None


def _synthesize_macos(text: str) -> bytes:
    """Synthesize with macOS `say`. Raises NoVoice."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "speech.wav"
        command = ["say", "--file-format=WAVE", "--data-format=LEI16@22050", "-o", str(file), text]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SYNTHESIS_SECONDS)  # noqa: S603
            return file.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise NoVoice(f"say returned no audio: {error}") from error


def _synthesize_espeak(text: str) -> bytes:
    """Synthesize with espeak-ng, which is not thread-safe. Raises NoVoice."""
    library, rate = _open_espeak()
    samples_bytes = bytearray()

    def take(samples: "ctypes._Pointer[ctypes.c_short]", num_samples: int, _events: object) -> int:
        if samples and num_samples > 0:
            samples_bytes.extend(ctypes.string_at(samples, num_samples * ctypes.sizeof(ctypes.c_short)))
        return 0

    callback, data = _Callback(take), text.encode()
    library.espeak_SetSynthCallback(callback)
    status = library.espeak_Synth(
        data, ctypes.c_size_t(len(data) + 1), 0, _BY_CHARACTER, 0, _UTF8, None, None
    )
    library.espeak_Synchronize()
    if status or not samples_bytes:
        raise NoVoice(f"espeak-ng returned no audio (status {status})")
    return _wav(bytes(samples_bytes), rate)


@cache
def _open_espeak() -> tuple[ctypes.CDLL, int]:
    """Return the library and its sample rate; opens it once.

    Raises NoVoice.
    """
    import espeakng_loader

    try:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except OSError as error:
        raise NoVoice(f"espeak-ng cannot be loaded: {error}") from error
    data = str(espeakng_loader.get_data_path()).encode()
    rate = library.espeak_Initialize(_SYNCHRONOUS, _NO_EVENTS_BUFFER, data, _DONT_EXIT)
    if rate <= 0 or library.espeak_SetVoiceByName(b"en-us"):
        raise NoVoice("espeak-ng finds no English voice")
    return library, int(rate)


def _wav(samples: bytes, rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()
