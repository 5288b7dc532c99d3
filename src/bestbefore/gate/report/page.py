"""The document as one page that a reviewer reads, prints and signs. It needs no script, and no
library beyond Python's own: whoever can run the gate can have it."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from bestbefore.gate.promises import PROMISES
from bestbefore.gate.report.document import has_passed, shown, told
from bestbefore.gate.report.elements import el, table, whole
from bestbefore.read.documents import Document

_MARKS = {"passed": "✓", "failed": "✗", "not applicable": "·"}


def page(found: Document) -> str:
    """The whole page, as HTML."""
    verdict = _verdict(found)
    return whole(
        f"bestbefore gate: {verdict}",
        el(
            "main",
            _head(found, verdict),
            el("section", el("h2", "Promises"), _overview(found)),
            el("section", el("h2", "Environment"), _environment(found["environment"])),
            el("section", el("h2", "What this setup can do"), *_findings(found["findings"])),
            el("section", el("h2", "Evidence"), *_evidence(found["promises"])),
            _signatures(),
        ),
    )


def _verdict(found: Document) -> str:
    if found["stopped"]:
        return "stopped"
    if found["failed"]:
        return "failed"
    return "passed" if has_passed(found) else "nothing was shown"


def _head(found: Document, verdict: str) -> Element:
    counts = ("passed", "failed", "not_applicable")
    said = {
        "passed": "Every promise that this setup can show holds on it.",
        "failed": "At least one promise does not hold on this setup.",
        "stopped": f"Somebody stopped it. Scenarios that were not played: {found['not_played']}.",
        "nothing was shown": "No scenario could be played to its end, so nothing is proven.",
    }[verdict]
    return el(
        "header",
        el("p", "bestbefore gate", of="eyebrow"),
        el("h1", verdict.capitalize(), of="good" if has_passed(found) else "bad"),
        el("p", said),
        el("p", f"It is not the whole gate: only {', '.join(found['only'])} was to be tried.")
        if found["only"]
        else None,
        el(
            "dl",
            *(
                el("div", el("dt", name.replace("_", " ")), el("dd", str(found[name])))
                for name in counts
            ),
            el("div", el("dt", "started"), el("dd", _moment(found["started_at"]))),
            el("div", el("dt", "took"), el("dd", f"{found['seconds']:,.0f} s")),
            of="counts",
        ),
    )


def _moment(instant: str) -> str:
    return f"{instant[:10]} {instant[11:19]} UTC"


def _overview(found: Document) -> Element:
    rows = []
    for promise, title in PROMISES.items():
        of_it = [told(one) for one in found["promises"] if one["promise"] == promise]
        counted = [f"{of_it.count(word)} {word}" for word in _MARKS if word in of_it]
        worst = next((w for w in ("failed", "passed", "not applicable") if w in of_it), "")
        rows.append(
            el(
                "tr",
                el("td", el("b", promise)),
                el("td", title),
                el("td", _mark(worst), ", ".join(counted) or "not tried", of="nowrap"),
            )
        )
    return table(("", "promise", "scenarios"), *rows, of="overview")


def _mark(word: str) -> Element | None:
    return el("span", f"{_MARKS[word]} ", of=word.replace(" ", "-")) if word else None


def _environment(environment: Document) -> Element:
    rows = [
        el("tr", el("th", name.replace("_", " "), scope="row"), el("td", *_lines(text)))
        for name, text in _named(environment)
    ]
    return el("table", el("tbody", *rows), of="facts")


def _named(environment: Document) -> Iterator[tuple[str, str]]:
    """What stands there, with what it is called: one level deep, as the document is."""
    for name, value in environment.items():
        if name in ("stores", "databases"):
            for own, one in value.items():
                yield f"{name.removesuffix('s')} {own}", _joined(one)
        elif isinstance(value, dict):
            yield name, _joined(value)
        else:
            yield name, shown(value)


def _joined(place: Document) -> str:
    return "\n".join(
        shown(value) if name in ("kind", "place") else f"{name.replace('_', ' ')}: {shown(value)}"
        for name, value in place.items()
        if value is not None
    )


def _lines(text: str) -> Iterator[Element | str]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield el("br")
        yield line


def _findings(findings: Sequence[Document]) -> Iterator[Element]:
    rows = [
        el(
            "tr",
            el("td", el("span", finding["level"], of=f"level {finding['level']}")),
            el(
                "td",
                el("p", finding["message"]),
                el("p", finding["remedy"], of="muted") if finding["remedy"] else None,
                el("p", el("code", finding["code"]), of="muted"),
            ),
        )
        for finding in findings
    ]
    if rows:
        yield table(("level", "finding"), *rows, of="findings")
    else:
        yield el("p", "`bestbefore check` has nothing to say about it.")


def _evidence(played: Sequence[Document]) -> Iterator[Element]:
    for promise, title in PROMISES.items():
        if of_it := [one for one in played if one["promise"] == promise]:
            yield el("h3", el("b", promise), f" {title}")
            yield from map(_scenario, of_it)


def _scenario(one: Document) -> Element:
    word = told(one)
    about = [part for part in (one["name"], one["place"], f"{one['seconds']:.1f} s") if part]
    return el(
        "article",
        el("h4", _mark(word), one["title"]),
        el("p", el("code", about[0]), *(f" · {part}" for part in about[1:]), of="muted"),
        el("p", el("b", word.capitalize()), f": {one['reason']}", of=f"reason {_class(word)}")
        if one["reason"]
        else None,
        table(("what was done or counted", "found", "expected", ""), *map(_fact, one["evidence"]),
              of="evidence") if one["evidence"] else None,
        of=_class(word),
    )  # fmt: skip


def _class(word: str) -> str:
    return word.replace(" ", "-")


def _fact(fact: Document) -> Element:
    claimed = fact["expected"] is not None
    word = "passed" if fact["ok"] else "failed"
    return el(
        "tr",
        el("td", fact["what"]),
        el("td", shown(fact["found"])),
        el("td", shown(fact["expected"])),
        el("td", _mark(word) if claimed or not fact["ok"] else None, of="nowrap"),
    )


def _signatures() -> Element:
    lines = (el("div", el("span", name)) for name in ("Name", "Role", "Date", "Signature"))
    return el(
        "section",
        el("h2", "Review"),
        el("p", "I have read the evidence above, and what is not applicable, with the reasons."),
        el(
            "p",
            el("span", of="box"), " may delete production data",
            el("span", of="box apart"), " may not, because:",
        ),
        el("div", *lines, of="lines"),
        of="review",
    )  # fmt: skip
