"""Practical context from memory, and the kind of cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.probe.limit_checks import check_cache, check_context

SIZES = st.integers(0, 10**12)


@given(
    context=st.integers(1, 10**7),
    conversation=st.builds(
        ConversationSize, bytes_per_token=SIZES, work_bytes_per_token=SIZES, fixed_bytes=SIZES
    ),
    weights=SIZES,
    limit=SIZES,
)
def test_practical_context_is_what_fits_into_memory(
    context: int, conversation: ConversationSize, weights: int, limit: int
) -> None:
    finding = check_context(
        context_length=context, conversation=conversation, weights_bytes=weights, memory_limit_bytes=limit
    )
    tokens = finding.value["tokens"]
    takes_memory = conversation.bytes_per_token + conversation.work_bytes_per_token > 0
    assert 0 <= tokens <= context
    assert not tokens or not takes_memory or weights + conversation.needed_bytes(tokens) <= limit
    assert tokens == context or weights + conversation.needed_bytes(tokens + 1) > limit
    assert finding.verdict == ("yes" if tokens else "no")


def test_sliding_windows_take_no_more_than_their_length() -> None:
    finding = check_context(
        context_length=100_000,
        conversation=ConversationSize(bytes_per_token=1000, windows=[(100, 900)]),
        weights_bytes=0,
        memory_limit_bytes=1_000_000,
    )
    # 100 tokens of all layers, and the rest of one tenth.
    assert finding.value["tokens"] == 100 + (1_000_000 - 100 * 1000) // 100


def test_reason_names_the_binding_limit() -> None:
    roomy = check_context(
        context_length=4096,
        conversation=ConversationSize(bytes_per_token=1000),
        weights_bytes=10**6,
        memory_limit_bytes=10**9,
    )
    tight = check_context(
        context_length=4096,
        conversation=ConversationSize(bytes_per_token=10**6),
        weights_bytes=10**9,
        memory_limit_bytes=2 * 10**9,
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
    finding = check_cache(kind, "not served in a batch")
    assert (finding.verdict, finding.value) == (verdict, {"kind": kind})
    assert finding.reason.endswith("; not served in a batch")
