"""Remarks of the plain chat at the width of the terminal."""

from mlxctl.chat.line_wrapping import wrap_lines


def test_lines_end_between_words() -> None:
    assert wrap_lines("No option 'x'. Options: temperature, top_p", 20).split("\n") == [
        "No option 'x'.",
        "Options:",
        "temperature, top_p",
    ]


def test_a_row_of_a_table_stays_in_its_column() -> None:
    text = "/tools on   offer files, a shell and a clock\n/quit       quit"
    assert wrap_lines(text, 30).split("\n") == [
        "/tools on   offer files, a",
        "            shell and a clock",
        "/quit       quit",
    ]


def test_long_words_and_short_lines_stay_whole() -> None:
    assert (
        wrap_lines("/a/path/longer/than/it\n  def f():  # x", 15) == "/a/path/longer/than/it\n  def f():  # x"
    )
