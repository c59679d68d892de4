"""Guardrails on texts that come in pieces."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.inference.guarded_answers import JsonFilter
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import (
    GenerationRequest,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    text_message,
)
from mlxctl.ir.errors import GuardrailMatched, InvalidRequest
from mlxctl.ir.policy import GuardrailRules
from mlxctl.server.policy.guardrails import MAX_RULE_CHARS, Guardrails
from mlxctl.server.policy.request_screen import InputScreen

RULES = GuardrailRules(blocklist=("ab", "b c"), regex=(r"\d{2,}-x", "(?i)cc+a"), action="redact")


def checked(rules: GuardrailRules, text: str) -> tuple[str, str | None]:
    (shown,), verdict = Guardrails(rules).check([text])
    return shown, verdict


def filtered(rules: GuardrailRules, pieces: list[str]) -> tuple[list[str], str | None]:
    text_filter = Guardrails(rules).text_filter()
    shown = [text_filter.feed(piece) for piece in pieces]
    return [*shown, text_filter.finish()], text_filter.verdict


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.text("abc -x1C", max_size=6), max_size=12),
    st.sampled_from(["redact", "refuse", "flag"]),
)
def test_every_chunking_sends_the_same_text(pieces: list[str], action: str) -> None:
    rules = GuardrailRules(blocklist=RULES.blocklist, regex=RULES.regex, action=action)  # type: ignore[arg-type]
    shown, verdict = filtered(rules, pieces)
    assert ("".join(shown), verdict) == checked(rules, "".join(pieces))
    assert action != "flag" or "".join(shown) == "".join(pieces)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my ab is", "my [redacted] is"),
        ("my AB", "my [redacted]"),
        ("abc drab", "abc drab"),
        ("b c", "[redacted]"),
        ("call 12345-x now", "call [redacted] now"),
        ("1-x", "1-x"),
        ("", ""),
    ],
)
def test_matches_are_redacted(text: str, shown: str) -> None:
    assert checked(RULES, text)[0] == shown
    assert "".join(filtered(RULES, list(text))[0]) == shown


def test_text_that_could_become_a_match_is_held_back() -> None:
    rules = GuardrailRules(blocklist=("secret",))
    text_filter = Guardrails(rules).text_filter()
    assert [text_filter.feed(piece) for piece in ("the se", "cr", "et", " of", " it")] == [
        "the ",
        "",
        "",
        "",
        "",
    ]
    assert text_filter.verdict == "refused"
    assert filtered(rules, ["the sec", "tion"])[0] == ["the ", "section", ""]


def test_long_open_match_does_not_hold_back_everything() -> None:
    # A match may begin at every eighth character: at every one, the search comes close to its time limit.
    shown, verdict = filtered(GuardrailRules(regex=("a.*z",)), ["a-------" * 375] * 3)
    assert (len(shown[1]), len(shown[2]), verdict) == (3000 * 2 - 4096, 3000, None)


@pytest.mark.parametrize(
    ("rules", "param"),
    [
        (GuardrailRules(regex=("ok", "(")), r"regex\[1\] is not"),
        (GuardrailRules(regex=("x*",)), r"regex\[0\] matches empty text"),
    ],
)
def test_unusable_pattern_names_its_place(rules: GuardrailRules, param: str) -> None:
    with pytest.raises(InvalidRequest, match=param):
        Guardrails(rules)


CALL = ToolCallPart(id="1", name="t", arguments=r'{"q": "\u0061\u0062"}')
SCHEMA = {"type": "object", "properties": {"ab": {"enum": [1]}}}


def request(text: str) -> PackedRequest:
    parts = (
        TextPart(text=text),
        ToolCallPart(id="1", name="ab", arguments='{"q": "ab"}'),
        ToolResultPart(call_id="1", content=(TextPart(text="an ab"),)),
    )
    return PackedRequest.of(GenerationRequest(model="m", messages=(Message(role="user", parts=parts),)))


def test_prompts_are_redacted_in_every_part() -> None:
    screened = InputScreen(RULES).screen(request("the ab"))
    assert screened.verdict == "redacted"
    assert screened.content is not None
    text, call, result = screened.content.messages[0].parts
    assert isinstance(text, TextPart)
    assert isinstance(call, ToolCallPart)
    assert isinstance(result, ToolResultPart)
    assert (text.text, call.arguments, result.text) == (
        "the [redacted]",
        '{"q": "[redacted]"}',
        "an [redacted]",
    )


def test_refused_prompt_is_not_repeated() -> None:
    rules = GuardrailRules(blocklist=("ab",))
    with pytest.raises(GuardrailMatched) as refused:
        InputScreen(rules).screen(request("the ab"))
    assert "ab" not in str(refused.value).split()


def test_flagged_prompt_stays_and_token_ids_are_refused() -> None:
    screened = InputScreen(GuardrailRules(blocklist=("ab",), action="flag")).screen(request("the ab"))
    assert (screened.content, screened.verdict) == (None, "flagged")
    ids = PackedRequest.of(GenerationRequest(model="m", prompts=((1, 2),)))
    with pytest.raises(InvalidRequest, match="token ids"):
        InputScreen(RULES).screen(ids)


@pytest.mark.parametrize(
    "hidden",
    [
        {"messages": (Message(role="user", parts=(TextPart(text="a"), TextPart(text="b"))),)},
        {"messages": (Message(role="assistant", parts=(ThinkingPart(text="a"), ThinkingPart(text="b"))),)},
        {"messages": (Message(role="assistant", parts=(CALL,)),)},
        {"messages": (text_message("user", "fine"),), "tools": (ToolSpec(name="t", description="ab"),)},
        {"messages": (text_message("user", "fine"),), "tools": (ToolSpec(name="t", parameters=SCHEMA),)},
        {"messages": (text_message("user", "fine"),), "template_kwargs": {"date": ["ab"]}},
        {"prompts": ("fine",), "suffix": "ab"},
    ],
)
def test_text_is_found_wherever_the_model_reads_it(hidden: dict[str, Any]) -> None:
    packed = PackedRequest.of(GenerationRequest(model="m", **hidden))
    with pytest.raises(GuardrailMatched):
        InputScreen(GuardrailRules(blocklist=("ab",))).screen(packed)
    screened = InputScreen(GuardrailRules(blocklist=("ab",), action="redact")).screen(packed)
    assert "[redacted]" in str(screened.content)
    assert InputScreen(GuardrailRules(blocklist=("ba",))).screen(packed).verdict is None


def test_match_across_parts_is_redacted_once() -> None:
    parts = (TextPart(text="x "), TextPart(text="a"), TextPart(text="b y"))
    packed = PackedRequest.of(GenerationRequest(model="m", messages=(Message(role="user", parts=parts),)))
    screened = InputScreen(RULES).screen(packed)
    assert screened.content is not None
    assert screened.content.messages[0].text == "x [redacted] y"


def test_escapes_of_json_hide_no_match() -> None:
    text_filter = JsonFilter(Guardrails(GuardrailRules(blocklist=("ab",))).text_filter())
    shown = [text_filter.feed(piece) for piece in (r'{"q": "x \u00', r"61\u", "006", '2"}')]
    assert ("".join([*shown, text_filter.finish()]), text_filter.verdict) == ('{"q": "x ', "refused")


def test_rules_hold_for_their_models_and_directions() -> None:
    guardrails = Guardrails(GuardrailRules(blocklist=("ab",), models=("qwen*",), apply_to=("input",)))
    assert guardrails.applies("input", "qwen3")
    assert not guardrails.applies("output", "qwen3")
    assert not guardrails.applies("input", "llama")
    assert not Guardrails(GuardrailRules()).applies("input", "qwen3")


def test_rules_have_a_limited_size() -> None:
    words = tuple("x" * 1000 for _ in range(MAX_RULE_CHARS // 1000))
    assert Guardrails(GuardrailRules(blocklist=words)).check(["x"])[1] is None
    with pytest.raises(InvalidRequest, match="100,005 characters together"):
        Guardrails(GuardrailRules(blocklist=words, regex=("a{10}",)))
