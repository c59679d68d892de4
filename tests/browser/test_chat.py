"""The chat section of the web page."""

import json
from base64 import b64encode

from playwright.sync_api import Page, Route, expect

from mlxctl.probe.image_check import one_color_png
from tests.browser.chat_section import COMPLETE, ask, open_chat, open_locked_chat, send
from tests.browser.conftest import KEY
from tests.server.hosted import HostedServer
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


def test_answer_streams_with_thinking_and_survives_other_sections_and_a_reload(
    page: Page, server: ServerProcess
) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    answer = page.locator(".assistant")
    expect(answer).to_contain_text("Hello! How can I help you?")
    expect(answer).to_contain_text("10 prompt tokens")
    answer.locator(".thinking summary").click()
    expect(answer).to_contain_text("The user greets me.")
    page.get_by_role("link", name="Requests").click()
    expect(page.get_by_role("table")).to_contain_text("finished")
    page.get_by_role("link", name="Chat").click()
    expect(answer).to_contain_text("Hello! How can I help you?")
    page.reload()
    expect(answer).to_contain_text("Hello! How can I help you?")
    expect(answer).to_contain_text(COMPLETE)


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


def test_earlier_messages_are_tried_again_forked_and_edited(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    ask(page, "Count to ten, please.")

    # The former answer is kept, and what followed.
    page.get_by_role("button", name="Try again").first.click()
    expect(page.locator(".branches")).to_have_text("2/2")
    expect(page.locator(".message")).to_have_count(2)
    page.get_by_role("button", name="Former version").click()
    expect(page.locator(".branches")).to_have_text("1/2")
    expect(page.locator(".message")).to_have_count(4)

    # A fork is a copy.
    page.get_by_role("button", name="Fork").first.click()
    expect(page.locator(".message")).to_have_count(2)
    titles = page.locator(".chats .title")
    expect(titles).to_have_text(["Hello! (fork)", "Hello!"])
    titles.last.click()
    expect(page.locator(".message")).to_have_count(4)

    # An edited message is another version beside the former.
    edit = page.get_by_role("button", name="Edit").first
    edit.click()
    expect(page.get_by_label("Message")).to_have_value("Hello!")
    page.keyboard.press("Escape")
    expect(page.locator(".message")).to_have_count(4)
    edit.click()
    send(page, "Hello again!")
    expect(page.locator(".assistant")).to_contain_text(COMPLETE)
    expect(page.locator(".user .body")).to_have_text("Hello again!")
    page.reload()
    page.get_by_role("button", name="Former version").first.click()
    expect(page.locator(".user .body")).to_have_text(["Hello!", "Count to ten, please."])


def test_stopped_answer_is_continued(page: Page, locked_server: HostedServer) -> None:
    open_locked_chat(page, locked_server, KEY)
    send(page, "Go on")
    body = page.locator(".assistant > .body")
    expect(body).not_to_be_empty()
    page.keyboard.press("Escape")
    begun = body.inner_text()
    with page.expect_request("**/v1/chat/completions") as sent:
        page.get_by_role("button", name="Continue", exact=True).click()
    assert sent.value.post_data_json["continue_final_message"] is True
    expect(page.locator(".message")).to_have_count(2)
    expect(body).not_to_have_text(begun)
    page.keyboard.press("Escape")
    assert body.inner_text().startswith(begun.rstrip())


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


def test_stopped_answer_returns_queued_messages_to_the_input(page: Page, locked_server: HostedServer) -> None:
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
    page.get_by_role("button", name="Options", exact=True).click()
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("Top p").fill("0.9")
    page.get_by_label("Top k").fill("40")
    with page.expect_request("**/v1/chat/completions") as sent:
        send(page, "Hello!")
    body = sent.value.post_data_json
    assert (body["top_p"], body["top_k"], "min_p" in body) == (0.9, 40, False)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    expect(page.get_by_role("button", name="Options: system prompt, top p 0.9, top k 40")).to_be_visible()


def claim_vision(route: Route) -> None:
    """Answer /v1/models as if the model read images."""
    body = route.fetch().json()
    body["data"][0]["adapter"]["takes_images"] = True
    route.fulfill(json=body)


def attach(page: Page, *images: tuple[str, str, bytes]) -> None:
    page.locator(".composer input[type=file]").set_input_files(
        [{"name": name, "mimeType": kind, "buffer": content} for name, kind, content in images]
    )


def test_attached_images_can_be_removed_and_unreadable_files_are_named(
    page: Page, server: ServerProcess
) -> None:
    open_chat(page, server)
    attach(page, ("red.png", "image/png", RED), ("green.png", "image/png", GREEN))
    shown = page.locator(".attachments img")
    expect(shown).to_have_count(2)
    green = shown.nth(1).get_attribute("src")
    page.get_by_role("button", name="Remove attached file 1").click()
    expect(shown).to_have_count(1)
    assert shown.get_attribute("src") == green

    page.get_by_role("button", name="Remove attached file 1").click()
    attach(page, ("a.bin", "", b"\xff\x00"), ("b.png", "image/png", b"text"))
    problems = (
        "a.bin is no text, no PDF file, no PNG, JPEG, WebP or GIF image, and no MP4, MOV or WebM video; "
        "b.png cannot be read as an image"
    )
    expect(page.locator(".composer [role=status]")).to_have_text(problems)
    expect(page.locator(".box .attachments")).to_be_hidden()


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
    expect(page.locator(".box .attachments img")).to_have_count(1)
    send(page, "What color is this?")
    expect(page.locator(".composer [role=status]")).to_contain_text("mlxctl-demo does not read images")
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="Remove attached file 1").click()
    ask(page, "Hello!")


def open_vision_chat_with_image(page: Page, server: ServerProcess) -> None:
    page.route("**/v1/models", claim_vision)
    open_chat(page, server)
    attach(page, ("red.png", "image/png", RED))
    expect(page.locator(".box .attachments img")).to_have_count(1)


def test_text_and_pdf_files_are_parts_of_the_message(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    attach(page, ("notes.txt", "text/plain", b"a ``` b"), ("a.pdf", "application/pdf", b"%PDF-1.7"))
    expect(page.locator(".attachments .file")).to_have_text(["notes.txt", "a.pdf"])
    with page.expect_request("**/v1/chat/completions") as sent:
        send(page, "What is this?")
    _, text, pdf = sent.value.post_data_json["messages"][0]["content"]
    assert text == {"type": "text", "text": "notes.txt:\n````\na ``` b\n````"}
    assert pdf["file"] == {
        "filename": "a.pdf",
        "file_data": f"data:application/pdf;base64,{b64encode(b'%PDF-1.7').decode()}",
    }


def test_keys_of_an_input_method_neither_send_nor_stop(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_label("Message").fill("\u65e5\u672c")
    page.get_by_label("Message").dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    page.get_by_label("Message").dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(page.get_by_label("Message")).to_have_value("\u65e5\u672c")
    expect(page.locator(".message")).to_have_count(0)


def test_edited_message_keeps_its_images(page: Page, server: ServerProcess) -> None:
    open_vision_chat_with_image(page, server)
    send(page, "What color is this?")
    expect(page.locator(".assistant")).to_contain_text("text only")
    expect(page.locator(".box .attachments")).to_be_hidden()
    page.get_by_role("button", name="Edit").click()
    expect(page.locator(".box .attachments img")).to_have_count(1)
    expect(page.get_by_label("Message")).to_have_value("What color is this?")


def test_images_of_earlier_messages_are_not_sent_to_a_text_model(page: Page, server: ServerProcess) -> None:
    open_vision_chat_with_image(page, server)
    send(page, "Hello!")
    expect(page.locator(".assistant")).to_contain_text("text only")
    page.unroute("**/v1/models")
    page.reload()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".assistant")).to_contain_text(
        "does not read images and videos: those of earlier messages"
    )
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_tool_call_is_shown_and_its_result_continues_the_answer(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_role("button", name="Options", exact=True).click()
    tools = page.locator("#tools")
    tools.fill('{"name": "get_weather"}')
    page.get_by_label("System prompt").focus()
    assert "Expected an array" in tools.evaluate("field => field.validationMessage")
    tools.fill(json.dumps([WEATHER]))
    page.get_by_label("System prompt").focus()

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


def test_stop_keeps_the_partial_answer(page: Page, locked_server: HostedServer) -> None:
    open_locked_chat(page, locked_server, KEY)
    send(page, "Go on")
    answer = page.locator(".assistant")
    expect(answer.locator(".body").last).not_to_be_empty()
    expect(answer.get_by_role("button", name="Copy")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(answer).to_contain_text("Stopped.")
    expect(answer.locator(".body").last).not_to_be_empty()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()


def test_lost_server_leaves_an_incomplete_answer_and_is_named(page: Page) -> None:
    with serving(model("endless")) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#status")).to_contain_text("ready")
        expect(page.locator("#model .name")).to_have_text("tiny")
        send(page, "Go on")
        expect(page.locator(".assistant .body").last).not_to_be_empty()
        server.process.kill()
        expect(page.get_by_role("alert")).to_contain_text("This answer is incomplete")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
