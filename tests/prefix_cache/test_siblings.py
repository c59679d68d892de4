"""Order of siblings: what comparing with every one of them would find."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.tokens import Salt, common_length, first_salt_difference, overlapping
from mlxctl.prefix_cache.chunks import ID_BYTES
from mlxctl.prefix_cache.siblings import Siblings

START = 512


@dataclass(frozen=True)
class Run:
    ids: bytes
    salts: tuple[Salt, ...]

    def starts_with(self, ids: bytes, salts: tuple[Salt, ...]) -> bool:
        end = START + len(ids) // ID_BYTES
        return self.ids.startswith(ids) and overlapping(self.salts, START, end) == overlapping(
            salts, START, end
        )


def run(tokens: list[int], images: list[tuple[int, bytes]]) -> Run:
    salts = tuple(Salt(START + place, START + place + 2, digest) for place, digest in images)
    ids = b"".join(token.to_bytes(ID_BYTES, "little") for token in tokens)
    return Run(ids, overlapping(salts, START, START + len(tokens)))


# Few tokens and images, so that runs share much, extend each other, and differ in an image only.
images = st.sampled_from(
    [[], [], [(1, b"a")], [(1, b"b")], [(3, b"a")], [(-1, b"c")], [(-1, b"d")], [(-1, b"c"), (1, b"a")]]
)
runs = st.builds(run, st.lists(st.sampled_from([1, 2, 256]), min_size=1, max_size=6), images)


def first_salts(one: Run) -> tuple[Salt, ...]:
    return overlapping(one.salts, START, START + 1)


def agreement(one: Run, other: Run) -> int:
    num_common = common_length(one.ids, other.ids) // ID_BYTES
    return first_salt_difference(one.salts, other.salts, START, START + num_common)


@given(st.sets(runs, max_size=30), runs)
def test_lookups_agree_with_a_linear_search(members: set[Run], query: Run) -> None:
    siblings: Siblings[Run] = Siblings(START)
    for member in members:
        siblings.add(member)
    closest = list(siblings.closest(query.ids, query.salts))

    agreeing = {member: agreement(member, query) for member in members if agreement(member, query) > START}
    assert dict(closest) == agreeing
    assert [end for _, end in closest] == sorted(agreeing.values(), reverse=True)
    covering = siblings.covering(query.ids, query.salts)
    assert (covering is not None) == any(member.starts_with(query.ids, query.salts) for member in members)
    assert set(siblings.starting_with(query.ids, query.salts)) == {
        member
        for member in members
        if member.ids.startswith(query.ids) and first_salts(member) == first_salts(query)
    }
    assert set(siblings.extended_by(query)) == {
        member for member in members if member is not query and query.starts_with(member.ids, member.salts)
    }


@given(st.lists(runs, unique=True, min_size=1, max_size=30), st.data())
def test_removed_runs_are_not_found(members: list[Run], data: st.DataObject) -> None:
    siblings: Siblings[Run] = Siblings(START)
    for member in members:
        siblings.add(member)
    removed = data.draw(st.sets(st.sampled_from(members)))
    for member in removed:
        siblings.remove(member)

    assert set(siblings) == set(members) - removed
    assert len(siblings) == len(members) - len(removed)


class CountedRun(Run):
    num_read = 0

    def __getattribute__(self, name: str) -> object:
        CountedRun.num_read += name == "ids"
        return super().__getattribute__(name)


def test_finding_the_closest_reads_few_of_many_runs() -> None:
    siblings: Siblings[Run] = Siblings(START)
    for number in range(5000):
        siblings.add(CountedRun(run([7, 7, 7, number], []).ids, ()))
    CountedRun.num_read = 0
    _, end = next(iter(siblings.closest(run([7, 7, 7, 4000, 1], []).ids, ())))

    assert end == START + 4
    assert CountedRun.num_read < 50
