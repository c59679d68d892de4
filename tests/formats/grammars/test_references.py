"""References are resolved by the names that schemas have."""

from typing import Any

import pytest

from mlxctl.formats.grammars import call_arguments
from mlxctl.formats.grammars.literals import LarkLiterals
from mlxctl.ir import TagNotation, ToolSpec
from mlxctl.ir.errors import InvalidRequest
from tests.formats.grammars.matching import accepts, compiled

NAMES = ["List<int>", "Page[Item]", "Map«string»", "two words", "a%b", "100%", "%41", "a/b", "a~b", "~1", "☃",
         'a"b', "a#b", "a?b", "Dictionary`2[System.String,Item]", "", "0"]  # fmt: skip
X = {"enum": ["x"]}


def holding(reference: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"q": {"$ref": reference}},
        "required": ["q"],
        "additionalProperties": False,
        **more,
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_name_is_found_as_it_is(name: str, key: str) -> None:
    schema = holding(f"#/{key}/{name}", **{key: {name: X, "other": {"type": "integer"}}})
    definition = compiled("json_schema", schema, is_strict=True)
    assert accepts(definition, {"q": "x"})
    assert not accepts(definition, {"q": "y"})


@pytest.mark.parametrize(
    "schema",
    [
        holding("#/$defs/List%3Cint%3E", **{"$defs": {"List<int>": X}}),
        holding("#/$defs/a~1b", **{"$defs": {"a/b": X}}),
        holding("#/$defs/outer/$defs/a b", **{"$defs": {"outer": {"$defs": {"a b": X}}}}),
        holding("#/properties/p", properties={"p": X, "q": {"$ref": "#/properties/p"}}),
        holding("#my anchor", **{"$defs": {"n": {"$anchor": "my anchor", **X}}}),
        holding("T0", **{"$defs": {"n": {"$id": "T0", **X}}}),
        holding("#/$defs/n", **{"$id": "My Schema", "$defs": {"n": X}}),
        holding("item.json", **{"$id": "https://a.b/c/s.json", "$defs": {"n": {"$id": "item.json", **X}}}),
        holding("https://a.b/s#/$defs/L<i>", **{"$id": "https://a.b/s", "$defs": {"L<i>": X}}),
        holding(
            "urn:a:b", **{"$defs": {"n": {"$id": "urn:a:b", "$ref": "#/$defs/m", "$defs": {"m": X}}, "m": {}}}
        ),
        holding("#/$defs/n", **{"$schema": "our own draft", "$defs": {"n": X}}),
    ],
)
def test_pointers_ids_and_anchors_are_followed(schema: dict[str, Any]) -> None:
    definition = compiled("json_schema", schema, is_strict=True)
    assert accepts(definition, {"q": "x"})
    assert not accepts(definition, {"q": "y"})


def test_properties_named_like_keywords_stay() -> None:
    schema = {"type": "object", "properties": {"id": X, "$ref": X, "$id": X}, "required": ["id", "$ref"]}
    definition = compiled("json_schema", schema, is_strict=True)
    assert accepts(definition, {"id": "x", "$ref": "x"})
    assert not accepts(definition, {"id": "y", "$ref": "x"})


def test_arguments_between_tags_follow_names_as_well() -> None:
    tool = ToolSpec(name="f", parameters=holding("#/$defs/List<int>", **{"$defs": {"List<int>": X}}))
    definition = call_arguments(
        tool, TagNotation(begin="<{name}>", end="</{name}>", ends=("</",), head="<call "), LarkLiterals(())
    )
    assert accepts(definition, "<q>x</q>")
    assert not accepts(definition, "<q>y</q>")


@pytest.mark.parametrize("reference", ["#/$defs/Miss<ing>", "elsewhere.json", "#nowhere", "#" + "/a" * 5000])
@pytest.mark.parametrize("is_strict", [True, False])
def test_reference_to_nothing_is_an_error(reference: str, is_strict: bool) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiled("json_schema", holding(reference), is_strict=is_strict)
    assert refused.value.param == "schema.properties.q"
