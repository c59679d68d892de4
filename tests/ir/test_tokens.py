"""Common prefixes of prompts with images and namespaces."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.cache_namespace import cache_namespace, group_scope, key_scope
from mlxctl.ir.tokens import Salt, caller_digest, common_length, common_tokens, pack

IDS = st.lists(st.integers(0, 3), max_size=40)


@given(IDS, IDS, IDS)
def test_common_prefix_is_the_longest(start: list[int], one: list[int], other: list[int]) -> None:
    expected = len(start)
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        expected += 1
    assert common_tokens(pack(start + one), pack(start + other)) == expected


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_common_length_is_that_of_equal_bytes(one: bytes, other: bytes) -> None:
    length = common_length(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


def test_equal_tokens_of_other_images_are_not_common() -> None:
    tokens = pack(range(20))
    cat, dog = (Salt(5, 9, name) for name in (b"cat", b"dog"))
    assert common_tokens(tokens, tokens, [cat], [cat]) == 20
    assert common_tokens(tokens, tokens, [cat], [dog]) == 5
    assert common_tokens(tokens, tokens, [cat], []) == 5


def test_no_salt_leads_into_the_namespace_of_another_caller() -> None:
    key, group = key_scope(b"digest"), group_scope("team")
    namespaces = {cache_namespace(scope, salt) for scope in (key, group) for salt in ("", "a", "b")}
    assert len(namespaces) == 6
    assert caller_digest([Salt(-1, 1, cache_namespace(key, "a"))]) == key
