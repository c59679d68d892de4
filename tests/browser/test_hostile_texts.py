"""Code in answers and JSON stays text on the web page."""

import json
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.chat_section import ask, open_chat, send
from tests.server.process import ServerProcess

MARKUP = '<img src=x onerror="top.isRun = 1">'
ANSWER = f"""{MARKUP} <script>top.isRun = 1</script> <svg onload="top.isRun = 1"></svg>
<meta http-equiv=refresh content="0;url=https://evil.test/"> <base href=https://evil.test/>
<style>* {{ display: none }}</style>

[a](javascript:top.isRun=1) [b](JaVaScRiPt:top.isRun=1) [c](//evil.test)
[d](data:text/html,<script>top.isRun=1</script>)
[e](https://evil.test/"onmouseover="top.isRun=1) <https://evil.test/{MARKUP}>

![f](data:image/svg+xml;base64,PHN2Zy8+) ![g](https://evil.test/pixel.png) ![h]({MARKUP})

| {MARKUP} |
| --- |
| **{MARKUP}** |

> # {MARKUP}
> - `{MARKUP}`

```{MARKUP}
{MARKUP}
```

```html
{MARKUP}
```

$x^2$ $\\href{{javascript:top.isRun=1}}{{a}}$ $\\text{{{MARKUP}}}$
$\\includegraphics{{https://evil.test/a.png}}$

$$
\\html{{{MARKUP}}} \\class{{b}}{{c}} \\def\\d{{\\d\\d}}\\d
$$
"""
_ACTIVE = (
    "img, script, svg:not(.icon), [href]:not(a), iframe, object, embed, meta, base, style, link, video, "
    "[onerror], [onload]"
)


def test_code_in_an_answer_stays_text(page: Page, server: ServerProcess) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer_with(page, ANSWER)
    open_chat(page, server)
    ask(page, "Hello!")
    body = page.locator(".assistant > .body")
    expect(body.locator(".drawn").first).to_be_visible()
    expect(body.locator("[class^=hl-]").first).to_be_visible()
    assert page.evaluate("window.isRun") is None
    assert body.locator(_ACTIVE).count() == 0
    assert set(body.locator("a").evaluate_all("links => links.map((link) => link.protocol)")) == {"https:"}
    assert all(url.startswith(server.url) for url in asked)


def test_answer_of_one_long_line_is_shown(page: Page, server: ServerProcess) -> None:
    answer_with(page, "*a* `b" * 150_000)
    open_chat(page, server)
    ask(page, "Hello!")
    assert page.locator(".assistant > .body").evaluate("body => body.textContent.length") > 500_000
    send(page, "Hello again!")
    expect(page.locator(".user")).to_have_count(2)


def test_markup_in_every_field_of_the_server_stays_text(page: Page, server: ServerProcess) -> None:
    def change(route: Route) -> None:
        route.fulfill(json=with_markup(route.fetch().json()))

    open_chat(page, server)
    ask(page, "Hello!")
    for pattern in ("health", "v1/models", "library", "downloads", "stats", "requests", "cache*", "cache/*"):
        page.route(f"{server.url}/{pattern}", change)
    for section in ("Models", "Requests", "Cache", "Chat"):
        page.get_by_role("link", name=section).click()
        expect(page.locator("main")).to_contain_text(MARKUP)
        assert page.locator("main").locator(_ACTIVE).count() == 0, section
    expect(page.locator("#status")).to_contain_text(MARKUP)
    # Polls are under way.
    page.unroute_all(behavior="ignoreErrors")
    assert page.evaluate("window.isRun") is None


def answer_with(page: Page, text: str) -> None:
    """Answer each question with a text."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(body=f"{body}data: [DONE]\n\n", content_type="text/event-stream"),
    )


def with_markup(value: Any) -> Any:
    """Return JSON whose texts end with markup.

    Fields that decide what is shown stay.
    """
    if isinstance(value, dict):
        return {
            key: item if key in ("kind", "key", "parent") else with_markup(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_markup(item) for item in value]
    return value + MARKUP if isinstance(value, str) else value
