"""Markdown of answers as elements, by the page's own script."""

import json
import re
from pathlib import Path

from playwright.sync_api import Page, Route

from mlxctl.server import web
from tests.server.process import ServerProcess

MODULES = Path(web.__file__).parent / "static"
# Markdown, and the HTML of the elements.
CASES = {
    "**b** and *c* and ~~d~~": "<p><strong>b</strong> and <em>c</em> and <s>d</s></p>",
    "a `b*c*`": "<p>a <code>b*c*</code></p>",
    "snake_case_name and 2 * 3 * 4": "<p>snake_case_name and 2 * 3 * 4</p>",
    "# One\n### Three": "<h3>One</h3><h5>Three</h5>",
    "- a\n- b\n  - c": "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>",
    "3. x\n4. y": '<ol start="3"><li>x</li><li>y</li></ol>',
    "> said\n> twice": "<blockquote><p>said<br>twice</p></blockquote>",
    "above\n\n---\n\nbelow": "<p>above</p><hr><p>below</p>",
    "<b>x</b> & <script>": "<p>&lt;b&gt;x&lt;/b&gt; &amp; &lt;script&gt;</p>",
    "[here](https://a.test/x_(y)) [bad](javascript:alert(1))": None,
    "see https://a.test/b.": None,
}


def test_markdown_becomes_elements_and_html_stays_text(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/")
    rendered = render(page, list(CASES))
    wanted = {text: html for text, html in CASES.items() if html is not None}
    assert {text: rendered[text] for text in wanted} == wanted
    links = rendered["[here](https://a.test/x_(y)) [bad](javascript:alert(1))"]
    assert 'href="javascript' not in links
    assert links.count("<a ") == 1
    assert 'href="https://a.test/b"' in rendered["see https://a.test/b."]


def test_code_block_and_table_are_complete_at_any_cut(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/")
    text = "```python\nif a < b:\n    print('*x*')\n```\n\n| a | b |\n| --- | --- |\n| 1 | **2** |"
    rendered = render(page, [text[:end] for end in range(len(text) + 1)])
    whole = rendered[text]
    assert "<span>python</span>" in whole
    assert "if a &lt; b:\n    print('*x*')" in whole
    assert "<th>a</th>" in whole
    assert "<td><strong>2</strong></td>" in whole
    # A fence that is still open is a code block already.
    assert rendered[text[:20]].count("<pre>") == 1


def test_deep_nesting_ends_as_text(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/")
    quoted = "> " * 500 + "end"
    html = render(page, [quoted])[quoted]
    assert html.count("<blockquote>") <= 12
    assert "end" in html


def render(page: Page, texts: list[str]) -> dict[str, str]:
    """Return the HTML of each Markdown text."""

    def send_module(route: Route) -> None:
        # The server sends all modules as one script.
        name = route.request.url.rpartition("/")[2]
        route.fulfill(path=MODULES / name, content_type="text/javascript")

    page.route(re.compile(r"/ui/(markdown|dom)\.js$"), send_module)
    html = page.evaluate(
        """async (texts) => {
          const { markdown } = await import("/ui/markdown.js");
          return texts.map((text) => markdown(text).map((node) => node.outerHTML).join(""));
        }""",
        texts,
    )
    assert len(html) == len(texts), json.dumps(texts)[:200]
    return dict(zip(texts, html, strict=True))
