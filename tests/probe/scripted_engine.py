"""An engine with scripted answers behind a real socket."""

import socket
import threading
from array import array
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

from mlxctl.engine.wire.commands import LoadModel, Stop, Submit
from mlxctl.engine.wire.framing import command_reader, encode_frame
from mlxctl.engine.wire.messages import AnyCommand
from mlxctl.engine.wire.reports import Hello, ModelLoaded, RowUpdate, Step
from mlxctl.ir.errors import EngineDied
from mlxctl.state.settings import EngineSettings

Script = Callable[[str], str | None]
_READ_BYTES = 1 << 20


class ScriptedEngine:
    """Answers each prompt with the result of `script`; None kills the engine.

    Answers are cut at max_tokens. After `num_lives` starts it fails to start.
    """

    def __init__(self, model: Path, script: Script, *, num_lives: int = 100) -> None:
        self._num_lives = num_lives
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._script = script
        self._thread: threading.Thread | None = None

    def __call__(self, settings: EngineSettings) -> "ScriptedEngine":
        """Act as its own launcher factory."""
        return self

    async def launch(self) -> socket.socket:
        """Start the engine thread."""
        if self._num_lives == 0:
            raise EngineDied("it does not start")
        self._num_lives -= 1
        ours, theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, args=(theirs,), daemon=True)
        self._thread.start()
        return ours

    async def end(self, *, grace_seconds: float) -> str | None:
        """Join the engine thread, which ends with its socket."""
        if self._thread is not None:
            self._thread.join(grace_seconds)
        return None

    def _serve(self, connection: socket.socket) -> None:
        hello = Hello(
            pid=1,
            device="script",
            backend="script",
            mlx_version="0",
            mlx_lm_version="0",
            blas="none",
            memory_limit_bytes=10**9,
            prefix_cache_bytes=0,
        )
        reader = command_reader()
        with connection:
            connection.sendall(encode_frame(hello))
            while data := connection.recv(_READ_BYTES):
                for command in reader.feed(data):
                    if not self._execute(command, connection):
                        return

    def _execute(self, command: AnyCommand, connection: socket.socket) -> bool:
        if isinstance(command, LoadModel):
            connection.sendall(encode_frame(_loaded(command, self._tokenizer.get_vocab_size())))
        if isinstance(command, Submit):
            answer = self._script(
                self._tokenizer.decode(array("I", command.prompt_token_ids), skip_special_tokens=False)
            )
            if answer is None:
                return False
            connection.sendall(encode_frame(Step(rows=[self._update(command, answer)])))
        return not isinstance(command, Stop)

    def _update(self, submit: Submit, answer: str) -> RowUpdate:
        token_ids = [*self._tokenizer.encode(answer, add_special_tokens=False).ids, submit.stop_token_ids[0]]
        is_cut = len(token_ids) > submit.max_tokens
        return RowUpdate(
            sequence_id=submit.sequence_id,
            token_ids=token_ids[: submit.max_tokens],
            finish_reason="length" if is_cut else "stop",
        )


def _loaded(command: LoadModel, vocabulary_size: int) -> ModelLoaded:
    return ModelLoaded(
        name=command.spec.name,
        vocabulary_size=vocabulary_size,
        weights_bytes=10**6,
        kv_bytes_per_token=1000,
        cache_kind="plain",
        load_seconds=0.1,
    )
