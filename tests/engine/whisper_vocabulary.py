"""A small vocabulary with the layout of Whisper's."""

from mlxctl.ir import WhisperTokens

END = 10
FIRST_TIME = 18
NUM_TOKENS = FIRST_TIME + 101

WINDOW_SAMPLES = 100 * 320
TOKENS = WhisperTokens(
    context_length=32,
    start=11,
    end=END,
    previous=12,
    no_times=13,
    first_time=FIRST_TIME,
    transcribe=14,
    translate=15,
    no_speech=16,
    languages={"en": 17},
    suppressed=(3,),
    suppressed_first=(),
)
