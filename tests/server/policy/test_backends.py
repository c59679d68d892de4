"""One contract over all policy backends."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import AuthenticationFailed, Conflict
from mlxctl.ir.policy import SCOPES, USER_SCOPES, Limits
from mlxctl.server.policy import PolicyService, SettingsPolicy
from mlxctl.server.policy.admin import KeyChange, NewKey, PolicyAdmin
from mlxctl.server.policy.backend import PolicyBackend, RequestFacts
from mlxctl.server.policy.key_table import secret_digest
from mlxctl.server.policy.opa import OpaPolicy
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state.stores.policy import PolicyStore

from .opa_double import opa_double

FACTS = RequestFacts(caller="k", scopes=frozenset(USER_SCOPES), models=("qwen*",), scope="generate")


def stored(tmp_path: Path) -> StoredPolicy:
    return StoredPolicy(PolicyStore(tmp_path / "policy.sqlite"), SettingsPolicy())


def of_settings(_: Path) -> PolicyBackend:
    return SettingsPolicy(["secret"], limits=Limits(concurrent=3))


def of_store(tmp_path: Path) -> PolicyBackend:
    policy = stored(tmp_path)
    admin = PolicyAdmin(SettingsPolicy(), policy)
    key = admin.add(NewKey(name="one"))
    row = policy.all_keys()[0]
    policy.put_key(type(row)(**{**_fields(row), "sha256": secret_digest("secret")}))
    assert key.id == policy.all_keys()[0].id
    policy.set_default_limits(Limits(concurrent=3))
    return policy


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


@contextmanager
def of_opa(tmp_path: Path) -> Iterator[OpaPolicy]:
    with opa_double() as server:
        yield OpaPolicy(of_store(tmp_path), server.url, timeout_seconds=20)


@pytest.fixture(params=[of_settings, of_store, of_opa])
def decider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PolicyBackend | OpaPolicy]:
    """Each backend that decides."""
    with ExitStack() as stack:
        created = request.param(tmp_path)
        yield stack.enter_context(created) if request.param is of_opa else created


@pytest.fixture(params=[of_settings, of_store])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> PolicyBackend:
    create: Callable[[Path], PolicyBackend] = request.param
    return create(tmp_path)


def test_backend_finds_keys_by_digest_only(backend: PolicyBackend) -> None:
    key = backend.find_key(secret_digest("secret"))
    assert key is not None
    assert [key] == list(backend.all_keys())
    assert backend.find_key(secret_digest("secret ")) is None
    assert backend.find_key("") is None


def test_backend_has_default_limits(backend: PolicyBackend) -> None:
    assert backend.default_limits().concurrent == 3


@pytest.mark.parametrize(
    ("facts", "is_allowed"),
    [
        (FACTS, True),
        (replace(FACTS, model="qwen3"), True),
        (replace(FACTS, model="llama3"), False),
        (replace(FACTS, models=(), model="llama3"), True),
        (replace(FACTS, scope="cache:write"), False),
        (replace(FACTS, scope=None), True),
    ],
)
def test_backend_decides_by_scope_and_model(
    decider: PolicyBackend | OpaPolicy, facts: RequestFacts, is_allowed: bool
) -> None:
    decision = asyncio.run(decider.decide(facts))
    assert decision.allowed == is_allowed
    assert bool(decision.reason) != is_allowed


def test_settings_are_read_only() -> None:
    with pytest.raises(Conflict, match="read-only"):
        SettingsPolicy().set_default_limits(Limits())


def service(store: StoredPolicy, *api_keys: str, now: Callable[[], float] = lambda: 0.0) -> PolicyService:
    return PolicyService(SettingsPolicy(api_keys), store, now=now)


def test_first_key_makes_the_server_require_keys(tmp_path: Path) -> None:
    policy = service(stored(tmp_path))
    assert "admin" in policy.identify(authorization=None, x_api_key=None).scopes
    key = policy.admin.add(NewKey(name="ci", scopes=("metrics:read",)))
    with pytest.raises(AuthenticationFailed):
        policy.identify(authorization=None, x_api_key=None)
    caller = policy.identify(authorization=f"Bearer {key.key}", x_api_key=None)
    assert (caller.name, caller.scopes) == (key.id, {"metrics:read"})


def test_expired_revoked_and_rotated_keys_are_refused(tmp_path: Path) -> None:
    now = 10.0
    policy = service(stored(tmp_path), now=lambda: now)
    expiring, revoked, rotated = (
        policy.admin.add(NewKey(name=name, expires=expires))
        for name, expires in (("a", 20.0), ("b", None), ("c", None))
    )
    for key in (expiring, revoked, rotated):
        assert policy.identify(authorization=None, x_api_key=str(key.key)).name == key.id
    policy.admin.revoke(revoked.id)
    again = policy.admin.rotate(rotated.id)
    now = 20.0
    for key in (expiring, revoked, rotated):
        with pytest.raises(AuthenticationFailed):
            policy.identify(authorization=None, x_api_key=str(key.key))
    caller = policy.identify(authorization=None, x_api_key=str(again.key))
    before = policy.admin.key(rotated.id)
    assert (caller.name, before.revoked_at) == (rotated.id, None)


def test_rotated_key_keeps_its_cached_prefixes(tmp_path: Path) -> None:
    policy = service(stored(tmp_path))
    one, other = (policy.admin.add(NewKey(name=name)) for name in "ab")
    scopes = [
        policy.identify(authorization=None, x_api_key=str(key.key)).cache_scope
        for key in (one, policy.admin.rotate(one.id), other)
        if key is not one
    ]
    again = policy.admin.rotate(one.id)
    assert policy.identify(authorization=None, x_api_key=str(again.key)).cache_scope == scopes[0]
    assert scopes[0] != scopes[1]


def test_admin_scope_includes_all_others(tmp_path: Path) -> None:
    policy = service(stored(tmp_path))
    key = policy.admin.add(NewKey(name="boss", scopes=("admin",)))
    assert policy.identify(authorization=None, x_api_key=str(key.key)).scopes == frozenset(SCOPES)


def test_change_by_another_process_is_noticed(tmp_path: Path) -> None:
    clock = [0.0]
    settings = SettingsPolicy()
    mine = StoredPolicy(PolicyStore(tmp_path / "policy.sqlite"), settings, clock=lambda: clock[0])
    policy = PolicyService(settings, mine)
    key = PolicyAdmin(settings, stored(tmp_path)).add(NewKey(name="new"))
    clock[0] += 1
    assert policy.identify(authorization=None, x_api_key=str(key.key)).name == key.id

    ended: list[str] = []
    caller = policy.identify(authorization=None, x_api_key=str(key.key))
    policy.track(caller, lambda: ended.append(caller.name))
    PolicyAdmin(settings, stored(tmp_path)).revoke(key.id)
    clock[0] += 1
    mine.refresh()
    assert ended == [key.id]


def test_late_end_of_an_ended_request_leaves_newer_ones_tracked(tmp_path: Path) -> None:
    now = [0.0]
    policy = PolicyService(SettingsPolicy(), stored(tmp_path), now=lambda: now[0])
    key = policy.admin.add(NewKey(name="one", expires=10))
    caller = policy.identify(authorization=None, x_api_key=str(key.key))
    ended: list[str] = []
    untrack = policy.track(caller, lambda: ended.append("first"))
    now[0] = 20
    policy.end_revoked()
    policy.admin.change(key.id, KeyChange(expires=30))
    policy.track(caller, lambda: ended.append("second"))
    untrack()
    now[0] = 40
    policy.end_revoked()
    assert ended == ["first", "second"]


def test_last_use_of_a_key_is_stored_once_a_minute(tmp_path: Path) -> None:
    clock = [0.0]
    mine = StoredPolicy(PolicyStore(tmp_path / "policy.sqlite"), SettingsPolicy(), clock=lambda: clock[0])
    policy = PolicyService(SettingsPolicy(), mine)
    key = policy.admin.add(NewKey(name="one"))
    policy.identify(authorization=None, x_api_key=str(key.key))
    stored_uses = []
    for clock[0] in (59.0, 60.0):
        asyncio.run(mine.store_uses())
        stored_uses.append(set(stored(tmp_path).last_used()))
    assert stored_uses == [set(), {key.id}]
    assert policy.admin.key(key.id).last_used is not None


def test_deleted_store_refuses_every_key(tmp_path: Path) -> None:
    clock = [0.0]
    PolicyAdmin(SettingsPolicy(), stored(tmp_path)).add(NewKey(name="one"))
    settings = SettingsPolicy()
    store = StoredPolicy(PolicyStore(tmp_path / "policy.sqlite"), settings, clock=lambda: clock[0])
    (tmp_path / "policy.sqlite").unlink()
    clock[0] += 1
    with pytest.raises(AuthenticationFailed):
        PolicyService(settings, store).identify(authorization="Bearer guess", x_api_key=None)


def test_names_of_keys_are_unique_until_revoked(tmp_path: Path) -> None:
    admin = PolicyAdmin(SettingsPolicy(["one"]), stored(tmp_path))
    key = admin.add(NewKey(name="ci"))
    with pytest.raises(Conflict, match="'ci'"):
        admin.add(NewKey(name="ci"))
    admin.revoke(key.id)
    again = admin.add(NewKey(name="ci"))
    with pytest.raises(Conflict, match="revoked"):
        admin.change(key.id, KeyChange(name="other"))
    with pytest.raises(Conflict, match="settings"):
        admin.revoke(admin.keys().keys[0].id)
    assert again.id != key.id


def test_secret_is_nowhere_in_the_store(tmp_path: Path) -> None:
    policy = stored(tmp_path)
    secret = str(PolicyAdmin(SettingsPolicy(), policy).add(NewKey(name="one")).key)
    assert secret.encode() not in (tmp_path / "policy.sqlite").read_bytes()
    assert secret not in repr([vars(policy), policy.all_keys()])
