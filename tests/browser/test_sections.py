"""Models, downloads, requests and cache on the web page."""

import httpx
from playwright.sync_api import Page, expect

from tests.browser.chat_section import ask, open_chat, open_locked_chat, send
from tests.browser.conftest import KEY, SLOW_REPOSITORY
from tests.server.hosted import HostedServer
from tests.server.process import ServerProcess


def test_models_are_listed_and_can_be_pinned(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_role("link", name="Models").click()
    served = page.get_by_role("table").first
    expect(served).to_contain_text("mlxctl-demo")
    served.get_by_role("button", name="Pin", exact=True).click()
    served.get_by_role("button", name="Unpin").click()
    expect(served.get_by_role("button", name="Pin", exact=True)).to_be_visible()


def test_model_of_another_server_is_neither_loaded_nor_pinned_here(page: Page, server: ServerProcess) -> None:
    listed = httpx.get(f"{server.url}/v1/models").json()
    listed["data"][0]["remote"] = "studio"
    page.route("**/v1/models", lambda route: route.fulfill(json=listed))
    page.goto(f"{server.url}/#models")
    served = page.get_by_role("table").first
    expect(served).to_contain_text("on studio")
    expect(served.get_by_role("button")).to_have_count(0)
    page.get_by_role("link", name="Chat", exact=True).click()
    page.locator("#model").click()
    expect(page.get_by_role("menuitemradio")).to_contain_text("on studio")


def test_running_download_shows_progress_and_is_cancelled(page: Page, server: ServerProcess) -> None:
    httpx.post(f"{server.url}/downloads", json={"repo": SLOW_REPOSITORY}).raise_for_status()
    page.goto(f"{server.url}/#models")
    row = page.get_by_role("row").filter(has_text=SLOW_REPOSITORY)
    expect(row.get_by_role("progressbar")).to_contain_text("of 131 MB")
    row.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("cancelled")


def test_download_starts_from_the_page(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/#models")
    page.get_by_label("Model to download").fill("qwen3:9b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("short names near it: qwen3:4b")
    page.get_by_label("Model to download").fill("https://huggingface.co/org/other")
    page.keyboard.press("Enter")
    row = page.get_by_role("row").filter(has_text="org/other")
    expect(row).to_contain_text("the hub has no repository 'org/other'")
    row.get_by_role("button", name="Dismiss").click()
    expect(row).to_have_count(0)


def test_hub_is_searched_from_the_page(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/#models")
    page.get_by_label("Model to download").fill("slow")
    page.get_by_role("button", name="Search the hub").click()
    expect(page.get_by_role("button", name=f"Download {SLOW_REPOSITORY}")).to_be_visible()


def test_failed_download_is_tried_again(page: Page, server: ServerProcess) -> None:
    httpx.post(f"{server.url}/downloads", json={"repo": "org/missing"}).raise_for_status()
    page.goto(f"{server.url}/#models")
    row = page.get_by_role("row").filter(has_text="org/missing")
    with page.expect_response(lambda answer: answer.request.method == "POST") as answer:
        row.get_by_role("button", name="Retry").click()
    assert (answer.value.status, answer.value.json()["repo"]) == (202, "org/missing")


def test_library_says_what_fits(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/#models")
    row = page.get_by_role("table").nth(1).get_by_role("row").filter(has_text="qwen3")
    expect(row).to_contain_text("yes, up to 32,768 tokens")


def test_cache_shows_conversations_and_explains_a_hit(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    for _ in range(2):
        page.get_by_role("button", name="New chat").click()
        ask(page, "Count to ten, please, and then count to ten once more, slowly.")
    page.get_by_role("link", name="Cache").click()
    expect(page.locator(".tree").first).to_contain_text("slowly")
    expect(page.get_by_role("row").nth(1)).to_contain_text("mlxctl-demo")
    expect(page.get_by_role("row").nth(1)).to_contain_text("the whole prompt was cached")


def test_long_prompt_is_one_entry_of_the_cache(page: Page, server: ServerProcess) -> None:
    messages = [{"role": "user", "content": "zebra " * 300}]
    prompt = {"model": "mlxctl-demo", "messages": messages, "max_tokens": 1}
    httpx.post(f"{server.url}/v1/chat/completions", json=prompt, timeout=60).raise_for_status()
    open_chat(page, server)
    page.get_by_role("link", name="Cache").click()
    entry = page.locator(".tree > li").filter(has_text="zebra")
    expect(entry).to_have_count(1)
    assert int(entry.inner_text().split(" tokens")[0].split()[-1].replace(",", "")) > 512


def test_open_request_is_cancelled_from_the_list(page: Page, locked_server: HostedServer) -> None:
    open_locked_chat(page, locked_server, KEY)
    send(page, "Go on")
    expect(page.locator(".assistant .body").last).not_to_be_empty()
    page.get_by_role("link", name="Requests").click()
    page.get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("stopped")
    page.get_by_role("link", name="Chat").click()
    expect(page.get_by_role("alert")).to_contain_text("This answer is incomplete")
