"""The chat section of the web page."""

import json

from playwright.sync_api import Page, Route, expect

from mlxctl.probe.image_check import one_color_png
from tests.browser.chat_section import COMPLETE, ask, open_chat, open_locked_chat, send
from tests.browser.conftest import KEY
from tests.server.process import ServerProcess, serving
from tests.tiny_models import model

RED, GREEN = one_color_png((220, 30, 30)), one_color_png((30, 160, 50))
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_answer_streams_with_thinking_and_token_counts(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    answer = page.locator(".assistant")
    expect(answer).to_contain_text("Hello! How can I help you?")
    expect(answer).to_contain_text("10 prompt tokens")
    answer.get_by_text("Thinking").click()
    expect(answer).to_contain_text("The user greets me.")


def test_message_sent_before_the_models_are_known_is_answered(page: Page, server: ServerProcess) -> None:
    held: list[Route] = []
    page.route("**/v1/models", lambda route: held.append(route))
    with page.expect_request("**/v1/models"):
        page.goto(f"{server.url}/")
    send(page, "Hello!")
    held[0].continue_()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_markup_in_a_message_stays_text(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "<img src=x onerror=alert(1)> <script>alert(2)</script>")
    expect(page.locator(".user")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator(".transcript img, .transcript script").count() == 0


def test_conversation_survives_other_sections_and_a_reload(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("link", name="Requests").click()
    expect(page.get_by_role("table")).to_contain_text("finished")
    page.get_by_role("link", name="Chat").click()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    page.reload()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_edited_message_replaces_what_follows_once_it_is_sent(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    ask(page, "Count to ten, please.")
    edit = page.get_by_role("button", name="Edit").first
    edit.click()
    expect(page.get_by_label("Message")).to_have_value("Hello!")
    page.keyboard.press("Escape")
    expect(page.locator(".message")).to_have_count(4)
    edit.click()
    send(page, "Hello again!")
    expect(page.locator(".assistant")).to_contain_text(COMPLETE)
    expect(page.locator(".user .body")).to_have_text("Hello again!")


def test_answer_with_later_messages_is_tried_again_after_a_confirmation(
    page: Page, server: ServerProcess
) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("button", name="Try again").click()
    ask(page, "Count to ten, please.")
    assert asked == []
    page.get_by_role("button", name="Try again").first.click()
    expect(page.locator(".message")).to_have_count(2)
    assert asked == ["This also removes what comes after this answer (2 messages)."]


def test_message_sent_during_an_answer_waits_for_its_end(page: Page, server: ServerProcess) -> None:
    held: list[Route] = []
    page.route("**/v1/chat/completions", lambda route: held.append(route), times=1)
    open_chat(page, server)
    with page.expect_request("**/v1/chat/completions"):
        send(page, "Hello!")
    send(page, "Count to ten, please.")
    expect(page.locator(".queue li")).to_contain_text("Queued: Count to ten, please.")
    with page.expect_request("**/v1/chat/completions") as second:
        held[0].continue_()
    expect(page.locator(".assistant").nth(1)).to_contain_text(COMPLETE)
    roles = [message["role"] for message in second.value.post_data_json["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_stopped_answer_returns_queued_messages_to_the_input(
    page: Page, locked_server: ServerProcess
) -> None:
    open_locked_chat(page, locked_server, KEY)
    send(page, "Go on")
    for text in ("First", "Second", "Third"):
        send(page, text)
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Message")).to_have_value("Third")
    expect(page.locator(".queue li")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Message")).to_have_value("First\n\nSecond\n\nThird")
    expect(page.locator(".queue li")).to_have_count(0)


def test_options_are_sent_and_named(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_text("Options").click()
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("Top p").fill("0.9")
    page.get_by_label("Top k").fill("40")
    with page.expect_request("**/v1/chat/completions") as sent:
        send(page, "Hello!")
    body = sent.value.post_data_json
    assert (body["top_p"], body["top_k"], "min_p" in body) == (0.9, 40, False)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    expect(page.locator("summary").first).to_have_text("Options: system prompt, top p 0.9, top k 40")


def claim_vision(route: Route) -> None:
    """Answer /v1/models as if the model read images."""
    body = route.fetch().json()
    body["data"][0]["adapter"]["takes_images"] = True
    route.fulfill(json=body)


def attach(page: Page, *images: tuple[str, str, bytes]) -> None:
    page.locator("input[type=file]").set_input_files(
        [{"name": name, "mimeType": kind, "buffer": content} for name, kind, content in images]
    )


def test_attached_images_are_shown_and_can_be_removed(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    attach(page, ("red.png", "image/png", RED), ("green.png", "image/png", GREEN))
    shown = page.locator(".attachments img")
    expect(shown).to_have_count(2)
    green = shown.nth(1).get_attribute("src")
    page.get_by_role("button", name="Remove attached image 1").click()
    expect(shown).to_have_count(1)
    assert shown.get_attribute("src") == green


def test_files_that_are_no_images_are_named_and_not_attached(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    attach(page, ("a.bmp", "image/bmp", b"BM"), ("b.png", "image/png", b"text"))
    problems = (
        "a.bmp is not a PNG, JPEG, WebP or GIF image, or an MP4, MOV or WebM video; "
        "b.png cannot be read as an image"
    )
    expect(page.locator(".composer [role=status]")).to_have_text(problems)
    expect(page.locator(".attachments")).to_be_hidden()


def test_attached_video_is_shown_and_sent(page: Page, server: ServerProcess) -> None:
    page.route("**/v1/models", claim_vision)
    open_chat(page, server)
    attach(page, ("a.mp4", "video/mp4", b"\0\0\0\x18ftypisom"))
    expect(page.locator(".attachments video")).to_have_count(1)
    with page.expect_request("**/v1/chat/completions") as sent:
        send(page, "What happens?")
    (_, video) = sent.value.post_data_json["messages"][-1]["content"]
    assert video["video_url"]["url"].startswith("data:video/mp4;base64,")
    expect(page.locator(".message video")).to_have_count(1)


def test_image_for_a_text_model_is_refused_before_it_is_sent(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    attach(page, ("red.png", "image/png", RED))
    expect(page.locator(".attachments img")).to_have_count(1)
    send(page, "What color is this?")
    expect(page.locator(".composer [role=status]")).to_contain_text("mlxctl-demo does not read images")
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="Remove attached image 1").click()
    ask(page, "Hello!")


def open_vision_chat_with_image(page: Page, server: ServerProcess) -> None:
    page.route("**/v1/models", claim_vision)
    open_chat(page, server)
    attach(page, ("red.png", "image/png", RED))
    expect(page.locator(".attachments img")).to_have_count(1)


def test_edited_message_keeps_its_images(page: Page, server: ServerProcess) -> None:
    open_vision_chat_with_image(page, server)
    send(page, "What color is this?")
    expect(page.locator(".assistant")).to_contain_text("text only")
    expect(page.locator(".attachments")).to_be_hidden()
    page.get_by_role("button", name="Edit").click()
    expect(page.locator(".attachments img")).to_have_count(1)
    expect(page.get_by_label("Message")).to_have_value("What color is this?")


def test_images_of_earlier_messages_are_not_sent_to_a_text_model(page: Page, server: ServerProcess) -> None:
    open_vision_chat_with_image(page, server)
    send(page, "Hello!")
    expect(page.locator(".assistant")).to_contain_text("text only")
    page.unroute("**/v1/models")
    page.reload()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".assistant")).to_contain_text("does not read images: those of earlier messages")
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_tool_call_is_shown_and_its_result_continues_the_answer(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_text("Options").click()
    tools = page.locator("#tools")
    tools.fill('{"name": "get_weather"}')
    page.keyboard.press("Tab")
    assert "Expected an array" in tools.evaluate("field => field.validationMessage")
    tools.fill(json.dumps([WEATHER]))
    page.keyboard.press("Tab")

    ask(page, "What is the weather in Paris?")
    expect(page.locator(".assistant")).to_contain_text("Tool call: get_weather")
    expect(page.locator(".assistant code")).to_have_text('{"city": "Paris"}')
    result = page.get_by_label("Result of get_weather")
    expect(result).to_be_focused()
    page.reload()
    result.fill("sunny, 21 degrees")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant").nth(1)).to_contain_text(COMPLETE)
    expect(page.locator(".assistant").nth(1)).to_contain_text("sunny, 21 degrees")
    expect(result).to_have_count(0)


def test_stop_keeps_the_partial_answer(page: Page, locked_server: ServerProcess) -> None:
    open_locked_chat(page, locked_server, KEY)
    send(page, "Go on")
    answer = page.locator(".assistant")
    expect(answer.locator(".body").last).not_to_be_empty()
    expect(answer.get_by_role("button", name="Copy")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(answer).to_contain_text("Stopped.")
    expect(answer.locator(".body").last).not_to_be_empty()
    expect(page.get_by_role("button", name="Send")).to_be_enabled()


def test_lost_server_leaves_an_incomplete_answer_and_is_named(page: Page) -> None:
    with serving(model("endless")) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#status")).to_contain_text("ready")
        expect(page.locator("#model option")).to_have_text(["tiny"])
        send(page, "Go on")
        expect(page.locator(".assistant .body").last).not_to_be_empty()
        server.process.kill()
        expect(page.get_by_role("alert")).to_contain_text("This answer is incomplete")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
