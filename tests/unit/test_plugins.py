"""Adapters of other packages: found by their entry points, and never trusted blindly."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bestbefore.app import plugins
from bestbefore.app.settings import ConfigError
from bestbefore.ports.ledger import LedgerError
from support.settings import Read

Install = Callable[..., None]

MODULE = """
from collections.abc import Mapping

def connect(options):
    if "where" not in options:
        raise ValueError("expected where, found none; add where")
    return dict(options)

def needs(options):
    import some_driver_of_somebody

def text(options):
    return "row 3"
"""

GOOD = """
[stores.exports]
kind = "shelf"
[stores.exports.options]
where = "row 3"
[policies.weekly]
version = "v1"
older_than = "30d"
[policies.weekly.objects]
store = "exports"
bucket = "digests"
prefix = "exports/"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A package on the path, as pip leaves one, with these entry points for stores."""

    def install(package: str = "shelves", **entries: str) -> None:
        folder = tmp_path / f"site-{package}"
        info = folder / f"{package}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{kind} = {package}_adapter:{name}" for kind, name in entries.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{plugins.STORES}]", *lines, ""]))
        (folder / f"{package}_adapter.py").write_text(MODULE)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, f"{package}_adapter", raising=False)

    return install


def connected(kind: str, options: dict[str, object]) -> dict[str, object]:
    return plugins.connect(plugins.STORES, kind, options, "stores.exports", dict)


def test_an_adapter_is_made_of_its_options(install: Install) -> None:
    install(shelf="connect")

    assert connected("shelf", {"where": "row 3"}) == {"where": "row 3"}
    assert "shelf" in plugins.installed(plugins.STORES)


@pytest.mark.parametrize(
    ("entry", "options", "said"),
    [
        ("connect", {}, "stores.exports.options: expected where, found none; add where"),
        ("needs", {}, "shelf (shelves 1.2) needs some_driver_of_somebody: install it"),
        ("missing", {}, "shelf (shelves 1.2) cannot be imported: AttributeError"),
        ("text", {}, "shelf (shelves 1.2) returned str where dict was expected"),
    ],
)
def test_what_makes_no_adapter_is_told_with_its_package_and_its_place(
    install: Install, entry: str, options: dict[str, object], said: str
) -> None:
    install(shelf=entry)

    with pytest.raises(LedgerError) as raised:
        connected("shelf", options)

    assert said in str(raised.value)


def test_two_packages_with_one_kind_are_refused_by_their_names(install: Install) -> None:
    install(shelf="connect")
    install("boards", shelf="connect")

    with pytest.raises(LedgerError, match=r"shelves 1\.2.*uninstall all but one") as raised:
        connected("shelf", {"where": "row 3"})

    assert "boards 1.2" in str(raised.value)


def test_an_adapter_that_was_uninstalled_is_missed(install: Install) -> None:
    install(shelf="connect")

    with pytest.raises(LedgerError, match=r"no installed package brings an adapter drawer.*shelf"):
        connected("drawer", {})


def test_a_kind_of_another_package_is_good_with_its_options(install: Install, read: Read) -> None:
    install(shelf="connect")

    store = read(GOOD).stores["exports"]

    assert (store.kind, store.options, store.place) == ("shelf", {"where": "row 3"}, "shelf")


def test_secrets_among_options_are_read_from_where_they_are(
    install: Install, read: Read, tmp_path: Path
) -> None:
    install(shelf="connect")
    (tmp_path / "password").write_text("of a file\n")

    store = read(
        GOOD + "[stores.exports.options.login]\n"
        'password_file = "password"\ntoken_env = "SHELF_TOKEN"\nretries = 3\n',
        {"SHELF_TOKEN": "of the environment"},
    ).stores["exports"]

    assert store.options["login"] == {
        "password": "of a file",
        "token": "of the environment",
        "retries": 3,
    }
    assert "of a file" not in repr(store)


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ('"shelf"', '"shelv"', "stores.exports.kind", 'did you mean "shelf"?'),
        ('"shelf"', '"tape"', "stores.exports.kind", 'installed adapters: "shelf"'),
        ('"shelf"', '"tape"', "stores.exports.kind", 'expected "s3" or "directory"'),
        ('"shelf"', '"shelf"\nregion = "x"', "stores.exports.region", "[stores.exports.options]"),
        ('"shelf"', '"s3"', "stores.exports.options", "adapters of other packages"),
        ('where = "row 3"', "where_env = 3", "stores.exports.options.where_env", "where where is"),
        (
            'where = "row 3"',
            'where_env = "NOT_THERE"',
            "stores.exports.options.where_env",
            "is not set",
        ),
        (
            'where = "row 3"',
            'where = "row 3"\nwhere_env = "X"',
            "stores.exports.options.where",
            "expected one source",
        ),
        ('where = "row 3"', "[stores.other]", "stores.other.kind", "expected this key"),
    ],
)
def test_what_cannot_be_meant_is_one_problem(
    install: Install, read: Read, old: str, new: str, place: str, said: str
) -> None:
    install(shelf="connect")

    with pytest.raises(ConfigError) as raised:
        read(GOOD.replace(old, new, 1))

    (problem,) = raised.value.problems
    assert ".".join(problem.place) == place
    assert said in f"{problem.message}; {problem.remedy}"
