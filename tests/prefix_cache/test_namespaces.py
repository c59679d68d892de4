"""Cache namespaces: prefixes match only within a client's own namespace."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine import EngineClient
from mlxctl.ir import CacheOptions
from mlxctl.ir.cache_namespace import cache_namespace, group_scope, key_scope
from mlxctl.ir.tokens import caller_digest, common_tokens, pack, prompt_salts
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import Output, finish, running_engine, submit

from .test_index import NAMESPACE, make_index, publish
from .test_reuse import COLD, WARM, text

ALPHA, BETA = (cache_namespace(b"", name) for name in ("alpha", "beta"))


async def ask(client: EngineClient, family: str, prompt: Sequence[int], namespace: bytes) -> Output:
    return await finish(submit(client, family, prompt, max_tokens=6, cache=CacheOptions(namespace=namespace)))


def answers(
    family: str, cache: EngineSettings, *asked: tuple[Sequence[int], bytes], together: bool = False
) -> list[Output]:
    async def run() -> list[Output]:
        async with running_engine(family, settings=cache) as client:
            if together:
                return list(await asyncio.gather(*(ask(client, family, *one) for one in asked)))
            return [await ask(client, family, *one) for one in asked]

    return asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "lfm2"])
def test_prompt_matches_only_in_its_namespace(family: str) -> None:
    prompt = text(900, 1)
    first, other, longer, again = answers(
        family,
        WARM,
        (prompt, ALPHA),
        (prompt, BETA),
        ([*prompt, *text(50, 2)], b""),
        ([*prompt, *text(50, 3)], ALPHA),
    )
    assert [first.num_cached, other.num_cached, longer.num_cached] == [0, 0, 0]
    assert again.num_cached >= len(prompt) - 1
    assert first.token_ids == other.token_ids == answers(family, COLD, (prompt, b""))[0].token_ids


def test_clients_of_different_namespaces_do_not_share_prefill() -> None:
    prompt = text(900, 4)
    separate = answers("qwen3", WARM, (prompt, ALPHA), (prompt, BETA), together=True)
    shared = answers("qwen3", WARM, (prompt, ALPHA), ([*prompt, 7, 8], ALPHA), together=True)
    assert [output.num_cached for output in separate] == [0, 0]
    assert max(output.num_cached for output in shared) >= len(prompt) - 2


@settings(max_examples=60, deadline=None)
@given(
    namespaces=st.tuples(st.sampled_from([b"", ALPHA, BETA]), st.sampled_from([b"", ALPHA, BETA])),
    num_common=st.integers(1, 3 * CHUNK_TOKENS),
    num_more=st.integers(0, 40),
)
def test_common_prefix_is_counted_only_within_a_namespace(
    namespaces: tuple[bytes, bytes], num_common: int, num_more: int
) -> None:
    one = pack(range(10, 10 + num_common))
    other = one + pack(range(num_more))
    salts, other_salts = (prompt_salts(namespace, ()) for namespace in namespaces)
    index = make_index()
    publish(index, one, salts)
    expected = num_common if namespaces[0] == namespaces[1] else 0
    assert index.match(NAMESPACE, other, other_salts).num_tokens == expected
    assert common_tokens(one, other, salts, other_salts) == expected


def test_salts_and_adapters_stay_with_their_caller() -> None:
    scopes = [b"", group_scope("alpha"), key_scope(sha256(b"alpha").digest())]
    callers = []
    for scope in scopes:
        namespaces = [
            CacheOptions(namespace=cache_namespace(scope, salt), adapters_digest=adapters).prefix_namespace
            for salt in ("", "alpha")
            for adapters in (b"", b"adapter")
        ]
        assert len(set(namespaces)) == 4
        (caller,) = {caller_digest(prompt_salts(namespace, ())) for namespace in namespaces}
        callers.append(caller)
    assert len(set(callers)) == 3


def test_namespace_cannot_be_forged_by_another_salt() -> None:
    scopes = [b"", group_scope("alpha"), *(key_scope(sha256(key).digest()) for key in (b"alpha", b"beta"))]
    salts = ["", "alpha", "beta", *(scope.hex() for scope in scopes[1:])]
    assert len({cache_namespace(scope, salt) for scope in scopes for salt in salts}) == len(scopes) * len(
        salts
    )
