"""The chat screen with scripted answers."""

import subprocess
import sys
from pathlib import Path

import pytest
from snapshot_location import TextSnapshots
from syrupy.assertion import SnapshotAssertion
from textual import events
from textual.widgets import Input, Select

from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.widgets.composer import Composer
from mlxctl.ir import ImagePart, PromptProgress, TextDelta, ThinkingDelta
from mlxctl.ir.errors import BrokenModel, ConnectionLost, ServerUnreachable

from .screen_driver import Screen, drive, mask_times_in
from .scripted_backend import ScriptedBackend, call, end, text

CODE = "Here it is:\n\n```python\ndef f(x):\n    return x + 1\n```\n\n- one\n- **two**\n"


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextSnapshots)


def test_answer_with_thinking_tools_and_markdown(snapshot: SnapshotAssertion) -> None:
    backend = ScriptedBackend(
        [ThinkingDelta(text="I should compute."), *call("calculator", '{"expression": "6*7"}')],
        [TextDelta(text=CODE), end()],
    )

    async def interact(screen: Screen) -> None:
        await screen.ask("How much is 6*7?")
        await screen.wait_for("two")
        await screen.wait_for("context 105")
        await screen.settle()
        assert mask_times_in(screen.text()) == snapshot

    drive(backend, interact, uses_tools=True)


@pytest.mark.parametrize(("key", "words"), [("f1", "Quit"), ("f2", "Apply")])
def test_dialogs(key: str, words: str, snapshot: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press(key)
        assert await screen.wait_for(words) == snapshot
        await screen.press("escape")
        await screen.wait_for("Ask something")

    drive(ScriptedBackend(), interact)


def test_stopping_keeps_text_and_retry_replaces_it() -> None:
    backend = ScriptedBackend([TextDelta(text="Half an ans"), 60.0], text("A whole answer."))

    async def interact(screen: Screen) -> None:
        await screen.ask("Tell me")
        await screen.wait_for("Half an ans")
        await screen.press("escape")
        assert "Half an ans" in await screen.wait_for("Stopped. Partial answer kept")
        await screen.press("ctrl+r")
        assert "Half an ans" not in await screen.wait_for("A whole answer.")

    drive(backend, interact)
    assert backend.answers[0].is_cancelled
    assert [message.text for message in backend.requests[1].messages] == ["Tell me"]


def test_failed_retry_keeps_the_previous_answer() -> None:
    failure = ServerUnreachable("http://x", "gone")
    backend = ScriptedBackend(
        [TextDelta(text="Half an ans"), ConnectionLost("it went away")], [failure], text("Now whole.")
    )

    async def interact(screen: Screen) -> None:
        await screen.ask("Tell me")
        await screen.wait_for("it went away")
        await screen.press("ctrl+r")
        seen = " ".join((await screen.wait_for("Previous answer kept")).split())
        assert "Half an ans" in seen
        await screen.press("ctrl+r")
        assert "Half an ans" not in await screen.wait_for("Now whole.")

    drive(backend, interact)


def test_last_question_can_be_edited_and_resent() -> None:
    backend = ScriptedBackend(text("First."), text("Second."))

    async def interact(screen: Screen) -> None:
        await screen.ask("One")
        await screen.wait_for("First.")
        await screen.press("ctrl+l", "s")
        await screen.press("enter")
        assert "First." not in await screen.wait_for("Second.")

    drive(backend, interact)
    assert [message.text for message in backend.requests[1].messages] == ["Ones"]


def test_line_breaks_history_and_system_prompt() -> None:
    backend = ScriptedBackend(text("First."), text("Second."))

    async def interact(screen: Screen) -> None:
        await screen.press("a", "ctrl+j", "b", "enter")
        await screen.wait_for("First.")
        await screen.press("f2")
        await screen.wait_for("Apply")
        await screen.press("B", "e", "ctrl+s")
        await screen.wait_for("Ask something")
        await screen.press("up", "enter")
        await screen.wait_for("Second.")

    drive(backend, interact)
    assert backend.requests[0].messages[0].text == "a\nb"
    assert [message.text for message in backend.requests[1].messages] == ["Be", "a\nb", "First.", "a\nb"]


def test_invalid_settings_are_not_applied() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press("f2")
        await screen.wait_for("Apply")
        await screen.press("tab", "h", "o", "t", "enter")
        await screen.wait_for("Temperature must be a number from 0 to 100, not 'hot'")

    drive(ScriptedBackend(), interact)


def test_settings_become_request_options() -> None:
    backend = ScriptedBackend(text("Fine."))
    values = {"top_k": "40", "min_p": "0.1", "seed": "7", "presence_penalty": "-1", "stop": '["a", "b"]'}
    values |= {"json_schema": '{"type": "object"}', "repetition_penalty": "1.2"}

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press("f2")
        await screen.wait_for("Apply")
        for name, value in values.items():
            screen.app.screen.query_one(f"#{name}", Input).value = value
        screen.app.screen.query_one("#overflow", Select).value = "compact"
        await screen.press("ctrl+s")
        await screen.wait_for("Ask something")
        await screen.ask("Hi")
        await screen.wait_for("Fine.")

    drive(backend, interact)
    request = backend.requests[0]
    sampling = request.sampling
    assert (sampling.top_k, sampling.min_p, sampling.seed, sampling.presence_penalty) == (40, 0.1, 7, -1.0)
    assert (sampling.repetition_penalty, sampling.frequency_penalty, request.stop) == (1.2, None, ("a", "b"))
    assert request.constraint is not None
    assert request.constraint.value == {"type": "object"}
    assert request.context_overflow == "compact"


def test_invalid_option_is_named() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press("f2")
        await screen.wait_for("Apply")
        screen.app.screen.query_one("#json_schema", Input).value = "[]"
        await screen.press("ctrl+s")
        await screen.wait_for("JSON schema must be")

    drive(ScriptedBackend(), interact)


def test_pasted_line_ends_are_normalized() -> None:
    backend = ScriptedBackend(text("Read."))

    async def interact(screen: Screen) -> None:
        screen.app.screen.query_one(Composer).post_message(events.Paste("one\r" * 300 + "two\r\nthree"))
        await screen.wait_for("[paste 1: 302 lines, ")
        await screen.press("enter")
        await screen.wait_for("Read.")

    drive(backend, interact)
    assert backend.requests[0].messages[0].text == "one\n" * 300 + "two\nthree"


def test_long_paste_is_folded_and_sent_in_full() -> None:
    backend = ScriptedBackend(text("Long."))
    pasted = "word " * 100_000

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        screen.app.screen.query_one(Composer).post_message(events.Paste(pasted))
        await screen.wait_for("[paste 1: 1 line, 500,000 characters]")
        await screen.press("enter")
        assert "[paste 1: 1 line, 500,000 characters]" in await screen.wait_for("Long.")

    drive(backend, interact)
    assert backend.requests[0].messages[0].text == pasted.strip()


def test_mark_of_a_sent_paste_is_plain_text() -> None:
    backend = ScriptedBackend(text("Long."), text("Short."))
    mark = "[paste 1: 300 lines, 1,499 characters]"

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        screen.app.screen.query_one(Composer).post_message(events.Paste("\n".join(["word"] * 300)))
        await screen.wait_for(mark)
        await screen.press("enter")
        await screen.wait_for("Long.")
        await screen.ask(mark)
        await screen.wait_for("Short.")

    drive(backend, interact)
    assert backend.requests[1].messages[-1].text == mark


def test_prefill_progress_is_shown() -> None:
    progress = PromptProgress(num_processed=1500, num_cached=0, num_prompt_tokens=3000)

    async def interact(screen: Screen) -> None:
        await screen.ask("Read")
        await screen.wait_for("reading 50% of 3,000")

    drive(ScriptedBackend([progress, 60.0]), interact)


def test_too_small_terminal_shows_a_notice_and_recovers() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.resize(30, 8)
        assert "Ask" not in await screen.wait_for("too small")
        await screen.resize(80, 24)
        assert "too small" not in await screen.wait_for("Ask something")
        await screen.press(*"typed")
        await screen.wait_for("typed")

    drive(ScriptedBackend(), interact)


class Absent(ScriptedBackend):
    """Unreachable at the first attempt."""

    num_tries = 0

    async def open(self) -> BackendModel:
        self.num_tries += 1
        if self.num_tries == 1:
            raise ServerUnreachable("http://there", "the connection is refused")
        return await super().open()


def test_early_question_waits_for_the_server() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("no server answers at http://there")
        await screen.ask("Hello")
        await screen.wait_for("At last.")

    drive(Absent(text("At last.")), interact)


class Broken(ScriptedBackend):
    async def open(self) -> BackendModel:
        raise BrokenModel("x", "model 'x' has no config.json")


def test_unusable_model_keeps_the_question_in_the_input() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("Error: model 'x' has no config.json")
        await screen.ask("Hello")
        await screen.wait_for("There is no model to ask")
        assert screen.app.screen.query_one(Composer).text == "Hello"

    drive(Broken(), interact)


def test_conversation_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "c.md"

    async def interact(screen: Screen) -> None:
        await screen.ask("Hello")
        await screen.wait_for("Hi!")
        await screen.press("ctrl+s")
        await screen.wait_for("Export")
        screen.app.screen.query_one("#path", Input).value = str(path)
        await screen.press("enter")
        await screen.wait_for("Saved to")

    drive(ScriptedBackend(text("Hi!")), interact)
    assert "Hi!" in path.read_text()


def test_switched_model_answers_the_next_question() -> None:
    backend = ScriptedBackend(text("One."), text("Two."))

    async def interact(screen: Screen) -> None:
        await screen.ask("First")
        await screen.wait_for("One.")
        await screen.press("f4")
        assert "has no weights" in await screen.wait_for("● scripted")
        await screen.press("down", "enter")
        await screen.wait_for("another is ready")
        await screen.ask("Second")
        await screen.wait_for("Two.")

    drive(backend, interact)
    assert [request.model for request in backend.requests] == ["scripted", "another"]
    assert [message.text for message in backend.requests[1].messages] == ["First", "One.", "Second"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [(["enter"], "42"), ([*"41", "enter"], "41"), (["escape"], "the user refused this call")],
)
def test_user_decides_the_result_of_a_tool_call(keys: list[str], expected: str) -> None:
    backend = ScriptedBackend(call("calculator", '{"expression": "6*7"}'), text("I see."))

    async def interact(screen: Screen) -> None:
        await screen.ask("How much is 6*7?")
        await screen.wait_for("Tool call: calculator")
        await screen.press(*keys)
        await screen.wait_for("I see.")

    drive(backend, interact, uses_tools=True, asks_before_tools=True)
    assert [result.text for result in backend.requests[1].messages[-1].tool_results] == [expected]


def test_stopping_closes_the_tool_call_dialog(snapshot: SnapshotAssertion) -> None:
    backend = ScriptedBackend(call("search", '{"query": "files"}'))

    async def interact(screen: Screen) -> None:
        await screen.ask("List my files")
        await screen.wait_for("Tool call: search")
        await screen.settle()
        assert mask_times_in(screen.text()) == snapshot
        await screen.app.screen_stack[0].run_action("command('stop')")
        await screen.wait_for("Stopped. Partial answer kept")

    drive(backend, interact, uses_tools=True, asks_before_tools=True)


PIXEL = b"\x89PNG\r\n\x1a\n and so on"


def test_attached_image_is_sent_and_returns_on_edit(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL)
    (tmp_path / "b.png").write_text("no image at all")
    backend = ScriptedBackend(text("A dot."), text("Still a dot."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        for name in ("b.png", "a.png"):
            await screen.press("f8")
            await screen.wait_for("Attach an image, video or PDF (")
            screen.app.screen.query_one(Input).value = str(tmp_path / name)
            await screen.press("enter")
            await screen.wait_gone("Attach an image, video or PDF (")
        await screen.wait_for("with 1 image")
        await screen.ask("What is it?")
        assert "[1 image]" in await screen.wait_for("A dot.")
        await screen.press("ctrl+l")
        await screen.wait_for("with 1 image")
        await screen.press("enter")
        await screen.wait_for("Still a dot.")

    drive(backend, interact)
    for request in backend.requests:
        assert request.messages[-1].parts[0] == ImagePart(data=PIXEL, media_type="image/png")


def test_first_frame_imports_no_heavy_modules() -> None:
    heavy = [
        "mlxctl.formats.adapters",
        "mlxctl.engine",
        "mlxctl.inference",
        "mlxctl.ir.model_spec",
        "mlxctl.protocols",
        "httpx",
        "jinja2",
        "tokenizers",
        "numpy",
        "mlx",
    ]
    imports = "import sys, mlxctl.chat.launch, mlxctl.chat.app"
    script = f"{imports}; print([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_only_the_newest_notifications_are_on_the_screen() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        for value in (0.1, 0.2, 0.3):
            await screen.ask(f"/set temperature {value}")
            seen = await screen.wait_for(f"Set: temperature {value}")
        assert seen.count("Set: temperature") == 2
        assert "Set: temperature 0.1" not in seen

    drive(ScriptedBackend(), interact)


def test_footer_shows_whole_keys_at_every_width() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        for width, last in ((80, "^F Find"), (60, "^O Copy"), (50, "^R Retry"), (84, "^F Find")):
            await screen.resize(width, 24)
            await screen.settle()
            assert screen.text().rstrip().endswith(last)

    drive(ScriptedBackend(), interact)


def test_long_lists_are_shown_in_the_chat() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("/system " + "a long instruction " * 20)
        await screen.ask("/system")
        await screen.wait_for("System prompt: a long instruction")
        await screen.ask("/tools")
        await screen.wait_for("Tools are off. /tools on offers them to the model.")
        assert "instruction a long" in screen.text()

    drive(ScriptedBackend(), interact)
