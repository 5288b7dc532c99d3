"""What is made of a gate's verdicts: the document, JUnit's XML, the page to sign."""

import importlib.util
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bestbefore.domain.finding import Finding, Level
from bestbefore.gate.promises import PROMISES
from bestbefore.gate.report.document import document, has_passed
from bestbefore.gate.report.junit import junit
from bestbefore.gate.report.page import page
from bestbefore.gate.scenario import Evidence, Ground, Scenario, Verdict
from bestbefore.gate.scenarios import SCENARIOS
from bestbefore.read.documents import Document

TOOL = Path(__file__).parents[2] / "tools" / "gate_table.py"
AT = datetime(2026, 7, 1, 2, 3, 4, tzinfo=UTC)
HOSTILE = '<script>alert("1")</script> & \x1b[31m\0\n]]> ü'
ABOUT = {
    "bestbefore": "0.1.0",
    "queue": {"kind": "rabbitmq", "place": HOSTILE, "retention": None},
    "stores": {"exports": {"kind": "s3", "place": "http://h", "buckets": ["a", "b"]}},
    "databases": {},
}


def verdict(name: str, promise: str, ok: bool | None, reason: str | None = None) -> Verdict:
    evidence = Evidence()
    evidence.note("20 objects were written")
    evidence.expect("final states", {"deleted": 19, "absent": 1}, {"deleted": 19, "absent": 1})
    evidence.claim(HOSTILE, timedelta(seconds=3), holds=True, expected="<less> than a minute")
    scenario = Scenario(name, promise, f"{name} holds", Ground.EITHER, lambda _: None)
    return Verdict(scenario, HOSTILE, ok, reason, evidence.facts, 1.25)


def found(*verdicts: Verdict, not_played: int = 0, only: tuple[str, ...] = ()) -> Document:
    findings = [Finding("odd", Level.WARNING, HOSTILE, "look <there>")]
    return document(verdicts, ABOUT, findings, AT, 61.04, not_played, only)


EVERY = (
    verdict("one", "P3", True),
    verdict("two", "P3", False, HOSTILE),
    verdict("three", "P10", None, "no such <right>"),
)


class Page(HTMLParser):
    """The texts and the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_document_is_json_and_counts_scenarios() -> None:
    shown = json.loads(json.dumps(found(*EVERY)))

    assert (shown["passed"], shown["failed"], shown["not_applicable"]) == (1, 1, 1)
    assert (shown["started_at"], shown["seconds"]) == ("2026-07-01T02:03:04Z", 61.0)
    assert shown["promises"][0]["evidence"][1:] == [
        {
            "what": "final states",
            "found": {"deleted": 19, "absent": 1},
            "expected": {"deleted": 19, "absent": 1},
            "ok": True,
        },
        {"what": HOSTILE, "found": "3 s", "expected": "<less> than a minute", "ok": True},
    ]


@pytest.mark.parametrize(
    ("verdicts", "not_played", "passed"),
    [(EVERY[:1], 0, True), (EVERY[::2], 0, True), (EVERY, 0, False), (EVERY[2:], 0, False),
     (EVERY[:1], 1, False), ((), 0, False)],
)  # fmt: skip
def test_it_passed_if_something_was_shown_nothing_failed_and_nothing_was_left_out(
    verdicts: tuple[Verdict, ...], not_played: int, passed: bool
) -> None:
    assert has_passed(found(*verdicts, not_played=not_played)) is passed


def test_junit_is_well_formed_and_tells_failed_from_skipped() -> None:
    root = ElementTree.fromstring(junit(found(*EVERY)))  # noqa: S314  (our own)

    assert [suite.get("name", "").split()[0] for suite in root] == ["P3", "P10"]
    for part in (root, *root):
        cases = list(part.iter("testcase"))
        assert part.get("tests") == str(len(cases))
        assert part.get("failures") == str(len(list(part.iter("failure"))))
        assert part.get("skipped") == str(len(list(part.iter("skipped"))))
    (failure,) = root.iter("failure")
    assert '<script>alert("1")</script>' in failure.get("message", "")
    (skipped,) = root.iter("skipped")
    assert skipped.get("message") == "no such <right>"
    assert "ok: final states: 1 absent, 19 deleted" in root.findtext(".//system-out", "")


def test_junit_of_a_gate_that_was_stopped_fails() -> None:
    root = ElementTree.fromstring(junit(found(EVERY[0], not_played=4)))  # noqa: S314

    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (failure,) = root.iter("failure")
    assert failure.get("message") == "stopped; scenarios that were not played: 4"


def test_the_page_takes_no_text_for_markup_and_asks_for_nothing_from_anywhere() -> None:
    text = page(found(*EVERY))

    there = Page(text)
    assert "script" not in there.tags
    assert not {"src", "href", "style", "onload"} & there.attributes
    assert not re.search(r"url\(|@import", text)
    assert '<script>alert("1")</script> & \\x1b[31m\\x00\\n]]> ü' in there.texts


def test_the_page_says_everything_a_reviewer_signs_for() -> None:
    texts = "\n".join(Page(page(found(*EVERY))).texts)

    for promise, title in PROMISES.items():
        assert f"{promise}\n" in texts
        assert title in texts
    for said in (
        "Failed", "one holds", "two holds", "no such <right>", "1 absent, 19 deleted",
        "<less> than a minute", "look <there>", "store exports", "Signature", "not tried",
    ):  # fmt: skip
        assert said in texts


@pytest.mark.parametrize(
    ("verdicts", "not_played", "said"),
    [(EVERY[:1], 0, "Passed"), (EVERY, 0, "Failed"), (EVERY[:1], 2, "Stopped"),
     (EVERY[2:], 0, "Nothing was shown")],
)  # fmt: skip
def test_the_page_begins_with_the_verdict(
    verdicts: tuple[Verdict, ...], not_played: int, said: str
) -> None:
    text = page(found(*verdicts, not_played=not_played))

    assert re.search(r"<h1[^>]*>([^<]*)</h1>", text)[1] == said  # type: ignore[index]


def test_the_page_of_a_part_says_that_it_is_one() -> None:
    said = "It is not the whole gate: only P3, one was to be tried."

    assert said in page(found(EVERY[0], only=("P3", "one")))
    assert "not the whole gate" not in page(found(EVERY[0]))


def test_a_long_value_is_cut_for_people_and_whole_in_the_document() -> None:
    evidence = Evidence()
    evidence.note("its key", "x" * 1_024)
    long = Verdict(EVERY[0].scenario, "", True, None, evidence.facts, 1.0)

    assert "x… (1,024 characters)" in page(found(long))
    assert "x" * 1_024 not in page(found(long)) + junit(found(long))
    assert "x" * 1_024 in json.dumps(found(long))


def test_every_promise_has_a_name_and_every_scenario_a_promise() -> None:
    assert list(PROMISES) == [f"P{n}" for n in range(1, 13)]
    assert {scenario.promise for scenario in SCENARIOS} <= set(PROMISES)
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_the_page_in_docs_lists_the_scenarios_there_are() -> None:
    spec = importlib.util.spec_from_file_location("gate_table", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    written = tool.PAGE.read_text(encoding="utf-8")
    assert written == tool.page(written), "run `python tools/gate_table.py`"
