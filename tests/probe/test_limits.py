"""Practical context from memory, and the kind of cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.probe.limit_checks import check_cache, check_context

SIZES = st.integers(0, 10**12)


@given(context=st.integers(1, 10**7), per_token=SIZES, weights=SIZES, limit=SIZES)
def test_practical_context_is_what_fits_into_memory(
    context: int, per_token: int, weights: int, limit: int
) -> None:
    finding = check_context(
        context_length=context, kv_bytes_per_token=per_token, weights_bytes=weights, memory_limit_bytes=limit
    )
    tokens = finding.value["tokens"]
    assert 0 <= tokens <= context
    assert tokens == 0 or per_token == 0 or weights + tokens * per_token <= limit
    assert tokens == context or weights + (tokens + 1) * per_token > limit
    assert finding.verdict == ("yes" if tokens else "no")


def test_sliding_windows_take_no_more_than_their_length() -> None:
    finding = check_context(
        context_length=100_000,
        kv_bytes_per_token=1000,
        kv_windows=[(100, 900)],
        weights_bytes=0,
        memory_limit_bytes=1_000_000,
    )
    # 100 tokens of all layers, and the rest of one tenth.
    assert finding.value["tokens"] == 100 + (1_000_000 - 100 * 1000) // 100


def test_reason_names_the_binding_limit() -> None:
    roomy = check_context(
        context_length=4096, kv_bytes_per_token=1000, weights_bytes=10**6, memory_limit_bytes=10**9
    )
    tight = check_context(
        context_length=4096, kv_bytes_per_token=10**6, weights_bytes=10**9, memory_limit_bytes=2 * 10**9
    )
    assert (
        roomy.reason
        == "4,096 tokens, calculated, limited by the model's context length; 1,000 bytes of cache per "
        "token, measured"
    )
    assert tight.reason.startswith(
        "1,000 tokens, calculated, limited by 1.00 GB of memory beside the weights"
    )


@pytest.mark.parametrize(("kind", "verdict"), [("plain", "yes"), ("sliding", "no"), ("hybrid", "no")])
def test_only_plain_cache_is_trimmable(kind: str, verdict: str) -> None:
    finding = check_cache(kind)
    assert (finding.verdict, finding.value) == (verdict, {"kind": kind})
