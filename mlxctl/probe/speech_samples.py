"""A voice that says what a model is to write down: that of macOS, else espeak-ng's.

The sound is made when it is needed.
"""

import ctypes
import io
import subprocess
import tempfile
import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import which

from mlxctl.errors import NoVoice
from mlxctl.installed import file_of

NO_VOICE = "there is no voice here: it takes macOS's say, or espeak-ng (pip install 'mlxctl[audio]')"
_SAY_SECONDS = 60.0

# Names and numbers of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _NO_EVENTS_BUFFER, _DONT_EXIT = 2, 0, 0x8000
_BY_CHARACTER, _UTF8 = 1, 1
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

Voice = Callable[[str], bytes]


def find_voice() -> Voice | None:
    """Return what turns an English text into the bytes of a WAV file, or None; it raises NoVoice where the
    voice fails.
    """
    if which("say") is not None:
        return _say
    return _espeak if file_of("espeakng_loader") is not None else None


def _say(text: str) -> bytes:
    """Have macOS say it. Raises NoVoice."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "said.wav"
        command = ["say", "--file-format=WAVE", "--data-format=LEI16@22050", "-o", str(file), text]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SAY_SECONDS)  # noqa: S603
            return file.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise NoVoice(f"say said nothing: {error}") from error


def _espeak(text: str) -> bytes:
    """Have espeak-ng say it. Not thread-safe: the library has one voice. Raises NoVoice."""
    library, rate = _open_espeak()
    said = bytearray()

    def take(samples: "ctypes._Pointer[ctypes.c_short]", num_samples: int, _events: object) -> int:
        if samples and num_samples > 0:
            said.extend(ctypes.string_at(samples, num_samples * ctypes.sizeof(ctypes.c_short)))
        return 0

    callback, data = _Callback(take), text.encode()
    library.espeak_SetSynthCallback(callback)
    status = library.espeak_Synth(
        data, ctypes.c_size_t(len(data) + 1), 0, _BY_CHARACTER, 0, _UTF8, None, None
    )
    library.espeak_Synchronize()
    if status or not said:
        raise NoVoice(f"espeak-ng said nothing (status {status})")
    return _wav(bytes(said), rate)


@cache
def _open_espeak() -> tuple[ctypes.CDLL, int]:
    """Return the library, which can be opened once only, and its samples a second. Raises NoVoice."""
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
