"""Steps in the chat section of the web page."""

import re

from playwright.sync_api import Page, expect

from tests.server.hosted import HostedServer
from tests.server.process import ServerProcess

COMPLETE = re.compile(r"\d tokens .*first token \d")
"""The line under an answer that is complete."""


def open_chat(page: Page, server: ServerProcess | HostedServer) -> None:
    page.goto(f"{server.url}/")
    expect(page.locator("#model .name")).to_have_text("mlxctl-demo")


def open_locked_chat(page: Page, server: HostedServer, key: str) -> None:
    page.goto(f"{server.url}/")
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Use key").click()
    expect(page.locator("#model .name")).to_have_text("tiny")


def send(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")


def ask(page: Page, text: str) -> None:
    """Send a message and wait for the whole answer."""
    answers = page.locator(".assistant")
    number = answers.count()
    send(page, text)
    expect(answers.nth(number)).to_contain_text(COMPLETE)
