"""What a terminal shows of text that models, servers and files contain."""

import json
import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from rich.progress import Progress, TextColumn
from rich.table import Table

from mlxctl.cli import app
from mlxctl.cli.console import _EscapingConsole, console
from mlxctl.state import locations
from mlxctl.state.log_format import JsonFormatter, TextFormatter
from mlxctl.terminal_text import echo, escape_control_characters, escape_line, escape_prose
from tests.hostile_server import TEXT

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ANY_TEXT = st.text(st.characters())
runner = CliRunner()


@given(ANY_TEXT)
@example("".join(map(chr, range(0x3000))) + "\ud800")
def test_no_control_character_is_left(text: str) -> None:
    assert not any(
        CONTROLS.search(escape(text)) for escape in (escape_prose, escape_control_characters, escape_line)
    )
    assert not {"\n", "\t"} & set(escape_line(text))


@given(st.recursive(ANY_TEXT, lambda inner: st.dictionaries(ANY_TEXT, inner, max_size=2), max_leaves=4))
def test_an_escaped_json_document_means_the_same(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=2)
    assert json.loads(escape_control_characters(document)) == value


@pytest.mark.parametrize(
    "text", ["naïve façade", "日本語", "👩\u200d💻 🇩🇪", "שלום عالم", "a\tb\nc", "e\u0301", "\u00a0\u2028"]
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert escape_control_characters(text) == escape_prose(text) == text


def test_direction_marks_stay_in_prose_only() -> None:
    assert escape_prose("\u05d0\u200f!") == "\u05d0\u200f!"
    assert escape_control_characters("evil\u200f.txt\u200e\u061c") == "evil\\u200f.txt\\u200e\\u061c"


def test_controls_become_symbols_and_json_escapes() -> None:
    assert (
        escape_control_characters("a\x1b[31mb\x07\tc\r\nd\x9b\x7f\ud83d")
        == "a␛[31mb␇\tc\nd\\u009b\\u007f\\ud83d"
    )
    assert escape_line("a\nb\tc") == "a⏎b→c"


def test_echo_escapes_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    echo(TEXT)
    echo(TEXT, err=True, end="")
    printed = capsys.readouterr()
    assert CONTROLS.search(printed.out + printed.err) is None
    assert printed.out == f"{printed.err}\n"


def test_console_escapes_every_cell_and_keeps_its_own_styles(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(f"head {TEXT}")
    table.add_row(TEXT)
    console().print(table, TEXT, style="bold")
    plain = capsys.readouterr().out
    _EscapingConsole(force_terminal=True, color_system="standard").print(table, style="bold red")
    styled = capsys.readouterr().out
    assert CONTROLS.search(plain) is None
    assert "[/x]" in plain
    assert "\x1b[1;31m" in styled
    assert not {"\x07", "\x9b", "\u202e"} & set(styled)
    assert "\x1b]" not in styled


def test_progress_line_escapes_its_description(capsys: pytest.CaptureFixture[str]) -> None:
    screen = _EscapingConsole(force_terminal=True)
    with Progress(TextColumn("{task.description}", markup=False), console=screen) as progress:
        progress.add_task(TEXT)
    shown = capsys.readouterr().out
    assert "PWNED" in shown
    assert not {"\x07", "\x9b", "\u202e"} & set(shown)
    assert "\x1b]" not in shown


def record(message: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelname": "ERROR", "name": "mlxctl"})


def test_text_log_has_one_line_for_a_message() -> None:
    line = TextFormatter().format(record(TEXT))
    assert CONTROLS.search(line) is None
    assert "\n" not in line


def test_exception_in_the_text_log_keeps_its_lines() -> None:
    found = record("failed")
    found.exc_info = (ValueError, ValueError(TEXT), None)
    lines = TextFormatter().format(found)
    assert CONTROLS.search(lines) is None
    assert "\nValueError: evil␛" in lines


def test_json_log_keeps_the_message() -> None:
    line = JsonFormatter().format(record(TEXT + "\udc80"))
    assert CONTROLS.search(line) is None
    assert json.loads(line)["message"] == f"{TEXT}\\udc80"


def test_logs_are_escaped_whatever_wrote_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = locations.service_log_file()
    log.parent.mkdir()
    log.write_bytes(b"one \x1b]0;PWNED\x07\xff\ntwo \xc2\x9b31m\n")
    shown = runner.invoke(app, ["logs"]).stdout
    assert shown == "one ␛]0;PWNED␇�\ntwo \\u009b31m\n"
