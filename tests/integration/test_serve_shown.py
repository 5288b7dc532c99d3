"""What `serve` shows of the ledger: measures, and keys only where keys may be seen."""

import re

from prometheus_client.parser import text_string_to_metric_families

from support.cli import Cli, fill
from support.faults import FaultyS3
from support.served import SECTION, Served

_PAGES = ("/", "/runs", "/dead-letters", "/audit")


def with_a_dead_letter(site: Cli, faulty: FaultyS3) -> list[str]:
    """Two objects of a run, one of which may not be deleted."""
    keys = fill(faulty, 2)
    faulty.refuse(keys[0], "AccessDenied")
    site("run", "exports", "--yes", code=1)
    return keys


def test_measures_are_scraped_by_who_may_read(site: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    site("run", "exports", "--yes")
    with Served(site, "--no-work") as there:
        answer = there.get("/metrics", scopes=("read",))
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    completed = families["bestbefore_operations_completed"].samples
    assert sum(sample.value for sample in completed) == 3
    assert "bestbefore_missed_slots" in families


def test_with_redacted_keys_neither_the_api_nor_the_pages_nor_the_log_name_one(
    site: Cli, faulty: FaultyS3
) -> None:
    keys = with_a_dead_letter(site, faulty)
    site.extra = f"{SECTION}redact_keys = true\n"
    site.write()
    with Served(site, "--no-work") as there:
        (letter,) = there.json("/v1/dead-letters")["dead_letters"]
        assert re.fullmatch("sha256:[0-9a-f]{12}", letter["command"]["key"])
        (run,) = there.json("/v1/runs")["runs"]
        operation, run_id = letter["operation_id"], run["run_id"]
        shown = [
            there.get(path).text
            for path in (
                f"/v1/operations/{operation}",
                f"/v1/dead-letters/{operation}",
                f"/v1/runs/{run_id}",
                "/v1/audit",
                "/metrics",
            )
        ]
        there.http.post("/sign-in", data={"token": there.token("operate")})
        incident = re.search(r"incident=[0-9a-f]{32}", there.http.get("/dead-letters").text)
        assert incident is not None
        for page in (
            *_PAGES,
            f"/runs/{run_id}",
            f"/dead-letters?{incident[0]}",
            f"/dead-letters/{operation}",
            f"/explain?operation={operation}",
        ):
            answer = there.http.get(page)
            assert answer.status_code == 200, (page, answer.text)
            shown.append(answer.text)
        logged = there.child.said()
    assert "sha256:" in "".join(shown)
    assert [key for key in keys if key in "".join(shown) + logged] == []
