"""How much lies under which prefix, in bounded memory."""

from collections import Counter
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.prefixes import MOST_PREFIXES, MOST_SHOWN, PrefixCounts, Under

KEYS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=4).map("/".join), st.integers(0, 9)),
    max_size=300,
)


def counted(keys: list[str], base: str = "exports/") -> PrefixCounts:
    counts = PrefixCounts(base)
    for key in keys:
        counts.add(base + key, 10)
    return counts


def test_objects_are_counted_by_the_first_folders_after_the_prefix() -> None:
    """S-REACH-09."""
    found = counted(["2026-05/a.json", "2026-05/b.json", "2026-06/deep/er/c.json", "d.json"])

    assert found.shown() == (
        Under("exports/2026-05/", 2, 20),
        Under("exports/", 1, 10),
        Under("exports/2026-06/deep/", 1, 10),
    )


def test_a_prefix_that_ends_within_a_name_is_counted_by_whole_names() -> None:
    found = counted(["/a.json", "-old/b.json"], base="exports/2026")

    assert {under.prefix for under in found.shown()} == {"exports/2026/", "exports/2026-old/"}


def test_a_bucket_without_folders_is_one_entry() -> None:
    assert counted(["a", "b"], base="").shown() == (Under("", 2, 20),)


def test_more_folders_than_are_shown_end_in_one_entry_for_the_rest() -> None:
    found = counted([f"{folder}/{n}" for folder in range(30) for n in range(folder + 1)])

    shown = found.shown()

    assert len(shown) == MOST_SHOWN + 1
    assert shown[0] == Under("exports/29/", 30, 300)
    assert shown[-1] == Under(None, sum(range(1, 11)), 10 * sum(range(1, 11)))


def test_months_of_many_tenants_are_shown_by_tenant() -> None:
    found = counted([f"{tenant}/{month}/x" for tenant in range(15) for month in range(8)])

    assert [under.n for under in found.shown()] == [8] * 15


def test_a_million_folders_need_no_more_memory_than_a_hundred_and_keep_the_large_one() -> None:
    """S-REACH-09, where every object has a folder of its own."""
    keys = (f"{'large' if n % 4 == 0 else n}/x" for n in range(100_000))
    counts = PrefixCounts("")
    for key in islice(keys, None):
        counts.add(key, 1)
        assert len(list(counts)) <= MOST_PREFIXES

    found = {under.prefix: under.n for under in counts.shown()}

    assert found["large/"] == 25_000
    assert sum(found.values()) == counts.n == 100_000


@given(KEYS, KEYS)
def test_every_key_is_counted_once_however_it_came_in(
    here: list[tuple[str, int]], there: list[tuple[str, int]]
) -> None:
    one, other = PrefixCounts("p/"), PrefixCounts("p/")
    for counts, keys in ((one, here), (other, there)):
        for key, size in keys:
            counts.add(f"p/{key}", size)

    both = PrefixCounts("p/", list(one)).include(other)

    total: Counter[str] = Counter(n=len(here) + len(there))
    total["size"] = sum(size for _, size in here + there)
    for shown in (both.shown(), both.shown(3)):
        assert sum(under.n for under in shown) == total["n"]
        assert sum(under.size for under in shown) == total["size"]
