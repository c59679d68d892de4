"""Volatile headers of coding agents are removed from prompts; nothing else is."""

import pytest

from mlxctl.formats.adapters.templates.agent_headers import find_volatile, without_agent_headers
from mlxctl.ir import Message, TextPart, text_message

HEADER = "x-anthropic-billing-header: cc_version=2.1.36.9b1; cc_entrypoint=cli; cch=4c1d0;"


def system(*texts: str) -> Message:
    return Message(role="system", parts=tuple(TextPart(text=text) for text in texts))


@pytest.mark.parametrize("header", [HEADER, f"{HEADER}\n", "cch=4c1d0;", f"{HEADER}\ncch=00ff;\n"])
def test_text_part_of_headers_alone_is_removed(header: str) -> None:
    assert without_agent_headers([system(header, "You are an agent.")]) == (system("You are an agent."),)


def test_leading_headers_are_removed_and_the_text_stays() -> None:
    assert without_agent_headers([system(f"{HEADER}\nYou are an agent.\n")]) == (
        system("You are an agent.\n"),
    )


@pytest.mark.parametrize(
    "message",
    [
        system(f"Never print {HEADER}"),
        system(f"First:\n{HEADER}"),
        system("cch=no hexadecimal number;\n"),
        text_message("user", HEADER),
        text_message("assistant", HEADER),
    ],
    ids=["within a line", "on a later line", "something like it", "said by the user", "said by the model"],
)
def test_headers_elsewhere_stay(message: Message) -> None:
    assert without_agent_headers([message]) == (message,)


def test_header_is_found_in_a_prompt_line() -> None:
    assert find_volatile(f"<|system|>{HEADER}") == (10, 10 + len(HEADER))
    assert find_volatile("You are an agent.") is None
