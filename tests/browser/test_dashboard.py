"""The dashboard in a real browser, in front of a real service."""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.estate import (
    BROKEN,
    HOSTILE,
    ORDERS,
    PARKED,
    SCHEDULED,
    SCRIPTS,
    TURNED,
    Estate,
    Visitor,
)
from support.forks import until

PAGES = ("/", "/runs", "/dead-letters", "/explain", "/holds", "/audit")
SHOWN = {BROKEN: "line\\nbreak\\r.json", TURNED: "\\u202egnp.exe"}
"""What stands for a key whose characters would not be seen."""


@pytest.fixture
def page(chromium: Browser, estate: Estate) -> Iterator[Page]:
    """Signed in as the operator."""
    yield from _visit(chromium, estate, estate.operator)


@pytest.fixture(params=[True, False], ids=["scripts", "no_scripts"])
def either(request: pytest.FixtureRequest, chromium: Browser, estate: Estate) -> Iterator[Page]:
    """The same, with JavaScript and without: everything has to work."""
    yield from _visit(chromium, estate, estate.operator, java_script_enabled=request.param)


@pytest.fixture
def reader(chromium: Browser, estate: Estate) -> Iterator[Page]:
    """Signed in with a token that may only read."""
    yield from _visit(chromium, estate, estate.reader)


def _visit(chromium: Browser, estate: Estate, token: str, **options: Any) -> Iterator[Page]:
    visitor = Visitor(chromium, estate, **options)
    try:
        visitor.come_back(token)
        yield visitor.page
        assert visitor.wrong == []
    finally:
        visitor.close()


def said(page: Page, text: str) -> None:
    """The page says what an action did."""
    expect(page.locator(".message")).to_contain_text(text)


def search(page: Page, text: str) -> None:
    page.goto("/dead-letters")
    page.get_by_label("Part of a key").fill(text)
    page.get_by_role("button", name="Search").click()


# -- who gets in ---------------------------------------------------------------------------------


def test_nobody_sees_a_page_without_signing_in(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)

    for path in (*PAGES, "/runs/abc", "/dead-letters/abc"):
        answer = visitor.context.request.get(path, max_redirects=0)
        assert answer.status == 303
        assert answer.headers["location"].startswith("/sign-in")
    for path in ("/pause", "/resume", "/runs/abc/approve", "/dead-letters/discard", "/holds"):
        answer = visitor.context.request.post(path, form={"reason": "evil"}, max_redirects=0)
        assert answer.headers["location"].startswith("/sign-in")
    visitor.page.goto("/")
    expect(visitor.page.get_by_label("Token")).to_be_focused()
    visitor.close()


def test_a_token_that_may_not_read_lets_nobody_in(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)

    for wrong in ("bb_0000", "x", estate.trigger):
        visitor.sign_in(wrong)
        expect(visitor.page.get_by_role("alert")).to_be_visible()
        assert visitor.context.cookies() == []
    visitor.close()


def test_after_signing_in_one_is_where_one_wanted_to_be(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)
    visitor.page.goto("/audit")

    visitor.page.get_by_label("Token").fill(estate.operator)
    visitor.page.keyboard.press("Enter")

    expect(visitor.page).to_have_url(estate.url + "/audit")
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    visitor.close()


def test_signing_in_leads_to_no_other_site(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)
    page = visitor.page

    for there in ("//evil.example/", "https://evil.example/", "/\\evil.example"):
        page.goto(f"/sign-in?next={there}")
        page.get_by_label("Token").fill(estate.operator)
        page.keyboard.press("Enter")
        expect(page).to_have_url(estate.url + "/")
    visitor.close()


def test_who_signed_out_is_out(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)
    page = visitor.page
    visitor.sign_in(estate.operator)
    cookies = page.context.cookies()
    page.get_by_role("button", name="Sign out").click()
    said(page, "You are signed out.")

    page.context.add_cookies(cookies)
    page.goto("/")

    assert "/sign-in" in page.url
    visitor.close()


def test_a_revoked_token_ends_its_sessions(chromium: Browser, estate: Estate) -> None:
    token = estate.cli.json("token", "add", "brief", "--scope", "read")["token"]
    visitor = Visitor(chromium, estate)
    visitor.sign_in(token)
    expect(visitor.page.get_by_role("heading", name="Overview")).to_be_visible()

    estate.cli("token", "revoke", "brief")
    visitor.page.goto("/runs")

    assert "/sign-in" in visitor.page.url
    visitor.close()


def test_a_form_of_another_site_does_nothing(page: Page, estate: Estate) -> None:
    csrf = str(page.locator('input[name="csrf"]').first.get_attribute("value"))
    elsewhere = {"Sec-Fetch-Site": "cross-site"}

    for form, headers in (
        ({}, {}), ({"csrf": ""}, {}), ({"csrf": "0" * 64}, {}), ({"csrf": csrf}, elsewhere)
    ):  # fmt: skip
        answer = page.request.post("/pause", form=form | {"reason": "evil"}, headers=headers)
        assert answer.status == 403
        assert "nothing was done" in answer.text()
    assert ("token:boss", "evil") not in estate.events("pause")


def test_who_only_reads_sees_no_buttons_and_can_do_nothing(reader: Page, estate: Estate) -> None:
    reader.goto("/dead-letters")
    reader.locator(".incidents a").first.click()
    expect(reader.get_by_role("button", name="Redrive")).to_have_count(0)
    csrf = reader.locator('input[name="csrf"]').first.get_attribute("value")

    answer = reader.request.post("/pause", form={"csrf": str(csrf), "reason": "evil"})

    assert answer.status == 403
    assert "--scope operate" in answer.text()


def test_the_cookie_opens_no_other_door(page: Page) -> None:
    assert page.request.get("/v1/status").status == 401


# -- what is seen --------------------------------------------------------------------------------


def test_every_page_can_be_read_by_a_screen_reader(page: Page) -> None:
    for path in PAGES:
        page.goto(path)
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.locator('nav a[aria-current="page"]')).to_have_count(1)
        assert page.locator("table:not(:has(caption))").count() == 0
        assert page.locator("th:not([scope])").count() == 0
        assert page.locator("svg:not([aria-hidden]):not([aria-label])").count() == 0
        for field in page.locator("main :is(input:not([type=hidden]), select, button)").all():
            if field.is_visible():
                expect(field).to_have_accessible_name(re.compile("."))
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


def test_the_overview_shows_what_waits_for_a_person(either: Page, estate: Estate) -> None:
    page = either
    estate.miss_slots(3)
    _park(estate)
    page.goto("/")

    decide = page.get_by_role("region", name="Waiting for your decision")
    expect(decide).to_contain_text("5 objects selected, max_deletes is 2")
    nightly = page.get_by_role("region", name=SCHEDULED, exact=True)
    expect(nightly.get_by_role("img", name=re.compile(r"Last 3 slots: .*missed"))).to_be_visible()
    expect(nightly).to_contain_text("02:00")
    logs = page.get_by_role("region", name=PARKED, exact=True)
    expect(logs.get_by_role("img", name=re.compile("Left to do .*: now 5"))).to_be_visible()


def test_keys_that_are_scripts_are_shown_as_text(page: Page, estate: Estate) -> None:
    """O-UI-01"""
    page.goto("/dead-letters")
    page.get_by_role("link", name=re.compile("AccessDenied")).click()

    for name in HOSTILE:
        expect(page.get_by_role("table")).to_contain_text(estate.key(SHOWN.get(name, name)))
        link = page.get_by_role("link", name=estate.key(SHOWN.get(name, name)), exact=True)
        assert re.fullmatch("/dead-letters/[0-9a-f]{64}", str(link.get_attribute("href")))
    assert page.locator("[onload], [onerror], main img, main script").count() == 0
    for name in SCRIPTS:
        page.get_by_role("link", name=estate.key(name), exact=True).click()
        expect(page.locator("h2").first).to_have_text(estate.key(name))
        page.get_by_role("link", name="Explain: why").click()
        expect(page.locator("h2").first).to_have_text(estate.key(name))
        assert page.locator("[onload], [onerror], main img, main script").count() == 0
        page.go_back()
        page.go_back()


def test_why_dead_says_what_happened_and_what_to_do(page: Page, estate: Estate) -> None:
    search(page, str(ORDERS[1]))
    page.get_by_role("table").get_by_role("link").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("Why dead?")
    main = page.get_by_role("main")
    expect(main).to_contain_text("an invoice refers to it")
    expect(main).to_contain_text("Correct what keeps the row")
    expect(main).to_contain_text("owner shop")
    expect(page.get_by_role("region", name="Attempts").locator("tbody tr")).to_have_count(3)


def test_explain_answers_for_a_key_however_it_is_written(page: Page, estate: Estate) -> None:
    page.goto("/explain")
    page.get_by_label("Policy").select_option("exports")
    page.get_by_label("Key of an object").fill(estate.key(SHOWN[BROKEN]))
    page.get_by_label("it is written with escapes").check()
    page.get_by_role("button", name="Why?").click()

    expect(page.locator("h2")).to_have_text(estate.key(SHOWN[BROKEN]))
    expect(page.get_by_role("main")).to_contain_text("before the cutoff")
    expect(page.get_by_role("main")).not_to_contain_text("there is no such object")
    assert estate.key("line") not in page.url


def test_explain_answers_for_a_row(page: Page) -> None:
    page.goto("/explain")
    page.get_by_label("Policy").select_option("orders")
    page.get_by_label("Key of an object").fill(str(ORDERS[0]))
    page.get_by_role("button", name="Why?").click()

    expect(page.locator("h2")).to_have_text(str(ORDERS[0]))
    expect(page.get_by_role("main")).to_contain_text("goes")


def test_an_error_is_a_page_that_says_what_to_do(page: Page) -> None:
    for path in ("/runs/nope", "/dead-letters/nope", "/dead-letters?incident=x"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("alert")).to_contain_text("nope" if "nope" in path else "incident")
        expect(page.get_by_role("link", name="To the overview")).to_be_visible()


def test_a_page_forbids_what_does_not_come_from_here(page: Page) -> None:
    answer = page.goto("/")

    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.locator("[style], style, script:not([src])").count() == 0


# -- what is done --------------------------------------------------------------------------------


def test_a_policy_is_paused_and_resumed_with_a_reason(either: Page, estate: Estate) -> None:
    page = either
    exports = page.get_by_role("region", name="exports", exact=True)
    exports.get_by_text("Pause", exact=False).first.click()
    exports.get_by_label("Reason").fill('incident "42" <b>')
    exports.get_by_role("button", name="Pause this policy").click()

    said(page, "Paused exports")
    expect(exports).to_contain_text('incident "42" <b>')
    exports.get_by_role("button", name="Resume").click()

    said(page, "Resumed exports.")
    assert estate.events("pause")[-1] == ("token:boss", 'incident "42" <b>')
    assert estate.events("resume")[-1][0] == "token:boss"


def test_one_dead_letter_is_redriven_once_its_cause_is_corrected(
    either: Page, estate: Estate
) -> None:
    page = either
    (name,) = _kill(estate)
    estate.repair(name)
    search(page, name)
    page.get_by_role("table").get_by_role("link").click()

    page.get_by_role("button", name="Redrive this one").click()

    said(page, "Redriven: 1")
    until(lambda: estate.key(name) not in estate.s3.keys("exports"), what="the delete")
    assert estate.events("redrive")[-1] == ("token:boss", "1 dead letters")


def test_exactly_those_ticked_are_redriven(page: Page, estate: Estate) -> None:
    """O-PK-04: ids that JavaScript would round."""
    search(page, "8441979383358423")
    for order in ORDERS:
        expect(page.get_by_role("table")).to_contain_text(str(order))

    page.get_by_role("checkbox", name=re.compile(str(ORDERS[1]))).check()
    page.get_by_role("button", name="Redrive", exact=True).click()

    said(page, "Redriven: 1")
    assert estate.order(ORDERS[0]) == ("dead", 0)
    assert estate.order(ORDERS[1])[1] == 1


def test_all_that_match_are_counted_tried_by_a_canary_and_sent_with_a_rate(
    either: Page, estate: Estate
) -> None:
    page = either
    names = _kill(estate, 12)
    mark = names[0].removesuffix("-0.json")

    def present() -> int:
        return sum(mark in key for key in estate.s3.keys("exports"))

    estate.repair(*names)
    search(page, mark)
    page.get_by_label("all that match").check()

    page.get_by_role("button", name="Only count").click()
    said(page, "Dry run: 12 would be redriven.")
    assert present() == 12

    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Redrive 10 as a canary").click()
    said(page, "Redriven: 10; workers take them up. 2 more match and were left.")
    until(lambda: present() == 2, what="the canary")

    page.get_by_label("all that match").check()
    page.get_by_label("At most a second").fill("20")
    page.get_by_role("button", name="Redrive", exact=True).click()
    said(page, "Redriven: 2")
    until(lambda: not present(), what="the rest")


def test_a_dead_letter_is_discarded_with_a_reason_and_nothing_is_deleted(
    either: Page, estate: Estate
) -> None:
    page = either
    (name,) = _kill(estate)
    search(page, name)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("alert")).to_contain_text("the reason is empty")

    search(page, name)
    page.get_by_role("checkbox").check()
    page.get_by_label("Reason").fill("legal keeps it")
    page.get_by_role("button", name="Discard").click()

    said(page, "Discarded: 1; nothing was deleted.")
    assert estate.key(name) in estate.s3.keys("exports")
    assert estate.events("discarded")[-1] == ("token:boss", "legal keeps it")
    page.goto("/audit?action=discarded")
    expect(page.locator("tbody tr").first).to_contain_text("legal keeps it")
    page.get_by_role("link", name=re.compile("operation")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("discarded")


def test_nothing_ticked_is_nothing_done(page: Page) -> None:
    page.goto("/dead-letters")
    page.locator(".incidents a").first.click()

    page.get_by_role("button", name="Redrive", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("no dead letter was ticked")


def test_a_hold_is_put_in_force_and_lifted(either: Page, estate: Estate) -> None:
    page = either
    page.goto("/holds")
    page.get_by_label("Store").select_option("s")
    page.get_by_label("Bucket").fill("exports")
    page.get_by_label("Prefix").fill("exports/<b>/")
    page.get_by_label("Reason").fill("lawsuit")
    page.get_by_role("button", name="Hold", exact=True).click()

    said(page, "is in force")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("s: exports/exports/<b>/")
    row.get_by_role("button", name=re.compile("Remove")).click()

    said(page, "Removed hold")
    expect(page.get_by_role("main")).to_contain_text("No holds in force")


def test_a_parked_run_is_cancelled_with_a_reason(either: Page, estate: Estate) -> None:
    page = either
    run = _park(estate)
    page.goto("/")
    page.get_by_role("link", name=f"Look at {run}").click()
    expect(page.get_by_role("main")).to_contain_text("old/4.log")
    page.get_by_label("Reason, for the audit", exact=True).fill("not today")
    page.get_by_role("button", name="Cancel this run").click()

    said(page, "Cancelled")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    assert estate.events("cancel")[-1] == ("token:boss", "not today")
    assert "old/4.log" in estate.s3.keys("logs")


def test_a_parked_run_is_approved_with_the_keyboard_alone_and_its_counts_reconcile(
    either: Page, estate: Estate
) -> None:
    page = either
    run = _park(estate)
    page.goto(f"/runs/{run}")
    expect(page.get_by_role("main")).to_contain_text("5 planned")

    focused = page.locator("*:focus")
    for _ in range(30):
        page.keyboard.press("Tab")
        if (focused.text_content() or "").startswith("Approve: delete 5 objects"):
            break
    page.keyboard.press("Enter")

    said(page, "Approved: 5 commands")
    assert estate.events("approve")[-1][0] == "token:boss"
    until(lambda: not estate.s3.keys("logs"), what="the deletes")
    until(lambda: not estate.states().get("pending"), what="the records of them")
    page.reload()
    expect(page.locator(".equation")).to_have_text(
        re.compile(
            r"5 planned\s*= 0 waiting\s*\+ 0 pending\s*\+ 5 completed\s*\+ 0 dead\s*reconcil"
        )
    )


def test_who_decides_about_a_parked_run_sees_what_it_would_remove_and_what_stays(
    either: Page, estate: Estate
) -> None:
    """S-REACH-09."""
    page = either
    estate.s3.put("logs", "old/2026/young.log", b"new", modified=datetime.now(UTC))
    run = _park(estate, keep="old/2026/young.log")
    page.goto(f"/runs/{run}")

    def section(name: str) -> Locator:
        return page.get_by_role("region", name=name, exact=True)

    decide = section("Waiting for your decision")
    expect(decide).to_contain_text("5 objects selected, max_deletes is 2")
    expect(decide).to_contain_text("Objects in logs/old/ in the store s that are older than 30d")
    would = section("What would be removed")
    expect(would).to_contain_text("5 objects")
    expect(would).to_contain_text("40 B in all")
    expect(would.get_by_role("row").last).to_contain_text("old/")
    expect(section("For example")).to_contain_text("old/4.log")
    expect(section("What stays, and why")).to_contain_text("old/2026/: 1")
    page.get_by_label("Reason, for the audit (optional)").fill("checked with billing")
    page.get_by_role("button", name="Approve: delete 5 objects (40 B)").click()

    said(page, "Approved: 5 commands")
    until(lambda: len(estate.s3.keys("logs")) == 1, what="the deletes")
    page.goto("/audit")
    expect(page.get_by_role("main")).to_contain_text("approved because checked with billing")


def test_the_page_of_a_parked_run_fits_a_phone(page: Page, estate: Estate) -> None:
    run = _park(estate)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/runs/{run}")

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    inside = "one => one.getBoundingClientRect().right <= innerWidth"
    for shown in page.locator(".figures b, .figures time, main td, main .key").all():
        assert shown.evaluate(inside), shown.text_content()
    for time in page.locator(".figures time").all():
        edges = "one => [one, one.closest('li')].map(it => it.getBoundingClientRect().right)"
        text, cell = time.evaluate(edges)
        assert text <= cell, time.text_content()


def test_what_is_shown_is_new_by_itself(chromium: Browser, estate: Estate) -> None:
    visitor = Visitor(chromium, estate)
    visitor.come_back(estate.operator)
    exports = visitor.page.get_by_role("region", name="exports", exact=True)
    expect(exports).not_to_contain_text("a pause from elsewhere")

    estate.cli("pause", "exports", "--reason", "a pause from elsewhere")

    expect(exports).to_contain_text("a pause from elsewhere", timeout=15_000)
    estate.cli("resume", "exports")
    assert visitor.wrong == []
    visitor.close()


# -- how it gets there ---------------------------------------------------------------------------

_marks = (f"mark-{number:03}" for number in itertools.count())


def _kill(estate: Estate, n: int = 1) -> list[str]:
    """Have *n* commands die, as the store denies them; returns what their objects are called."""
    mark = next(_marks)
    names = [f"{mark}-{number}.json" for number in range(n)]
    estate.refuse(*names)
    estate.plan("exports")
    until(lambda: estate.dead(mark) == n, what="the dead letters")
    return names


def _park(estate: Estate, keep: str | None = None) -> str:
    estate.fill_logs(keep)
    parked: str = estate.plan(PARKED)["run_id"]
    return parked
