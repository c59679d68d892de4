"""Markdown of answers as elements, by the page's own script."""

import json
import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from mlxctl.server import web
from tests.browser.conftest import opened_page
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
    "``a`b`` and ``c`": "<p><code>a`b</code> and <code>`c</code></p>",
    "- [ ] a": '<ul><li class="task"><input type="checkbox" disabled="" aria-label="to do">a</li></ul>',
    "a[^1]\n\n[^1]: b": '<p>a<sup>1</sup></p><p class="footnote"><sup>1</sup> b</p>',
    "$x_1$, \\(y\\)": '<p><span class="math">$x_1$</span>, <span class="math">\\(y\\)</span></p>',
    "$5 and $6, $A:$B": "<p>$5 and $6, $A:$B</p>",
    "so:\n$$\nx\n$$\n\\[ y": '<p>so:</p><div class="math">$$\nx\n$$</div><div class="math">\\[ y</div>',
    "`a *b ~~c d_e [f](g": "<p>`a *b ~~c d_e [f](g</p>",
    "# a\r\n- b\r\n---\r": "<h3>a\r</h3><ul><li>b\r</li></ul><hr>",
}
LISTS = (
    "- [x] w\n- [ ] x[^1]\n\n[^1]: y\n$$\nz\n$$\n\\[ a\n\n$$b$$ c\n"
    "- a\n- b\n\n  more\n\n    code\n- c\n\n1. x\n   - y\n2. z\n\n> q\n> - r\n\ns\n--- t\n\n- - u\n* * *\n- v"
)
BLOCKS = "a\n# b\n\n#c\n| d |\n\n| e |\n| - |\n| `f` |\ng\n\n```js\nh\n\n``` i\n~~~\n```\n~~~\n**j\nk** [l](https://m.test)\n\n\n---\nn"
SIZES = [1_600, 6_400, 25_600, 102_400]
# Each is repeated to the length of an answer: before, repeated, after.
SPECIAL = [*"`*_~[]()<>&|#-+:!$.1a \t\n\r", "\u2028", "\ud83d", "http://"]
PAIRS = [("", first + second, "") for first, second in combinations_with_replacement(SPECIAL, 2)]
_UNITS = [
    *("`x", "x`` ", "```a`", "**a ", "*a* ", "**a*", "_a_ ", "~~a ", "~~a~", "**_`a`_** ", "<think>", "$$a"),
    *("[a](", "[a](http://", "[a](http://b ", "[a](http://b) ", "](http://", "http://.["),
    *("# a\n", "> a\n", "> \n\n", "> > ", "- a\n", "- a\n\n", "- - ", "1. a\n- b\n", "---\n", "a\n\n"),
    *("```\n", "```\na\n", "~~~\n```\n", "|a|\n", "|a|\n|-|\n"),
]
RUNS = [
    *(("", unit, "") for unit in _UNITS),
    *(
        ("", unit, "")
        for unit in ("$a ", "\\(a", "\\[a\n", "$$a\n", "$$a$$ b\n", "[^a]", "[^a]: b\n", "- [ ] a\n")
    ),
    *(("x ", "`", ""), ("[", "[", "](http://b"), ("[a](http://", "b", ""), ("http://b", ".", " b")),
    *(("- ", "- ", "x"), ("```\n", " ", "x"), ("|", "|", "\n|-|")),
    *((mark, " ", f"{'x' * 9_000}\u2028y") for mark in "-#"),
]
# The same with ever longer runs: what is repeated, and what follows each run.
RISING = [
    *(("`", " "), ("`", "\n"), ("*", " "), ("_", "a"), ("[", "]")),
    *((" ", "- a\n"), (" ", "a\n"), ("> ", "\n"), ("- ", "\n")),
]

# Return the texts that take more than eight times the time for four times the length; 100 ms may be noise.
_SLOW = """async ([runs, rising, sizes]) => {
  const { markdown } = await import("/ui/markdown.js");
  const texts = new Map(runs.map(([before, unit, after]) => [before + unit + after,
    (size) => before + unit.repeat(size / unit.length) + after]));
  for (const [unit, end] of rising) texts.set(`rising ${unit}${end}`, (size) => {
    let text = "";
    for (let length = 1; text.length < size; length += 1) text += unit.repeat(length) + end;
    return text;
  });
  const milliseconds = (text) => {
    const begun = performance.now();
    markdown(text);
    return performance.now() - begun;
  };
  const isProportional = (textOf, size) => {
    const whole = milliseconds(textOf(size));
    return whole < 100 || whole < 8 * milliseconds(textOf(size / 4));
  };
  const slow = new Set();
  for (const size of sizes) for (const [name, textOf] of texts) {
    // Other work of the machine may slow one down.
    if (!slow.has(name) && ![1, 2, 3, 4, 5, 6].some(() => isProportional(textOf, size))) slow.add(name);
  }
  return [...slow];
}"""
# Return the beginnings of a text that look otherwise when they come character by character.
_DIFFERING = """async (text) => {
  const timers = [];
  window.setTimeout = (draw) => timers.push(draw);
  const { answerView } = await import("/ui/answer.js");
  const grown = answerView({}, {}), shown = (view) => view.node.querySelector(":scope > .body").innerHTML;
  const differing = [];
  for (let length = 1; length <= text.length; length += 1) {
    grown.add({ choices: [{ delta: { content: text[length - 1] } }] });
    for (const draw of timers.splice(0)) draw();
    const whole = answerView({}, {});
    whole.show({ content: text.slice(0, length) });
    if (shown(grown) !== shown(whole)) differing.push(text.slice(0, length));
  }
  return differing;
}"""
# Return how many elements are created while an answer grows by parts.
_NUM_CREATED = """async (parts) => {
  const timers = [], create = document.createElement.bind(document);
  window.setTimeout = (draw) => timers.push(draw);
  const { answerView } = await import("/ui/answer.js");
  const view = answerView({}, {});
  let number = 0;
  document.createElement = (name) => { number += 1; return create(name); };
  for (const content of parts) {
    view.add({ choices: [{ delta: { content } }] });
    for (const draw of timers.splice(0)) draw();
  }
  return number;
}"""


@pytest.fixture(scope="module")
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """A page that may import each module.

    The server sends them as one script.
    """

    def send_module(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(path=MODULES / name, content_type="text/javascript")

    with opened_page(browser) as opened:
        opened.route(re.compile(r"/ui/(?!page\b)\w+\.js$"), send_module)
        opened.goto(f"{server.url}/ui")
        yield opened


def test_markdown_becomes_elements_and_html_stays_text(page: Page) -> None:
    rendered = render(page, list(CASES))
    wanted = {text: html for text, html in CASES.items() if html is not None}
    assert {text: rendered[text] for text in wanted} == wanted
    links = rendered["[here](https://a.test/x_(y)) [bad](javascript:alert(1))"]
    assert 'href="javascript' not in links
    assert links.count("<a ") == 1
    assert 'href="https://a.test/b"' in rendered["see https://a.test/b."]


def test_code_block_and_table_are_complete_at_any_cut(page: Page) -> None:
    text = "```python\nif a < b:\n    print('*x*')\n```\n\n| a | b |\n| --- | --- |\n| 1 | **2** |"
    rendered = render(page, [text[:end] for end in range(len(text) + 1)])
    whole = rendered[text]
    assert "<span>python</span>" in whole
    assert "if a &lt; b:\n    print('*x*')" in whole
    assert "<th>a</th>" in whole
    assert "<td><strong>2</strong></td>" in whole
    # A fence that is still open is a code block already.
    assert rendered[text[:20]].count("</pre>") == 1


def test_deep_nesting_ends_as_text(page: Page) -> None:
    quoted = "> " * 500 + "end"
    html = render(page, [quoted])[quoted]
    assert html.count("<blockquote>") <= 12
    assert "end" in html


def test_time_is_proportional_to_the_length(page: Page) -> None:
    assert page.evaluate(_SLOW, [RUNS, RISING, SIZES]) == []
    # A time that is not proportional shows in texts of any length; there are many of these.
    assert page.evaluate(_SLOW, [PAIRS, [], SIZES[:-1]]) == []


def test_answer_has_a_bounded_number_of_elements_and_keeps_its_text(page: Page) -> None:
    texts = {
        unit: unit * 20_000 for unit in ("- ab\n", "*a* ", "ab\n\n", "|ab|\n|-|\n", "```\nab\n", "> ab\n\n")
    }
    rendered = render(page, list(texts.values()))
    counts = {unit: rendered[text].count("</") for unit, text in texts.items()}
    assert {unit: number for unit, number in counts.items() if not 3_000 < number < 12_000} == {}
    assert all(rendered[text].count("a") >= 20_000 for text in texts.values())


def test_row_with_too_many_cells_is_text(page: Page) -> None:
    texts = [f"{'|a' * columns}|\n{'|-' * columns}|" for columns in (100, 101)]
    rendered = render(page, texts)
    assert [rendered[text].count("<th>") for text in texts] == [100, 0]


@pytest.mark.parametrize("text", [LISTS, BLOCKS], ids=["lists", "blocks"])
def test_growing_answer_looks_as_if_it_came_at_once(page: Page, text: str) -> None:
    assert page.evaluate(_DIFFERING, text) == []


def test_blocks_of_a_growing_answer_are_drawn_once(page: Page) -> None:
    paragraphs = [f"Paragraph **{number}**.\n\n" for number in range(500)]
    assert page.evaluate(_NUM_CREATED, paragraphs) < 10 * len(paragraphs)


def render(page: Page, texts: list[str]) -> dict[str, str]:
    """Return the HTML of each Markdown text."""
    html = page.evaluate(
        """async (texts) => {
          const { markdown } = await import("/ui/markdown.js");
          return texts.map((text) => markdown(text).map((node) => node.outerHTML).join(""));
        }""",
        texts,
    )
    assert len(html) == len(texts), json.dumps(texts)[:200]
    return dict(zip(texts, html, strict=True))
