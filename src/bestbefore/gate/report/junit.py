"""The document as JUnit's XML, which CI systems read: a suite for each promise."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from bestbefore.domain.printable import printable
from bestbefore.gate.promises import PROMISES
from bestbefore.gate.report.document import shown, told
from bestbefore.read.documents import Document


def junit(found: Document) -> str:
    """Control characters, which XML has no way to write, come escaped as on a terminal."""
    played = found["promises"]
    root = Element("testsuites", {"name": "bestbefore gate", **_counts(played)})
    for promise, title in PROMISES.items():
        of_it = [one for one in played if one["promise"] == promise]
        if of_it:
            about = {
                "name": f"{promise} {title}",
                "timestamp": found["started_at"].removesuffix("Z"),
            }
            suite = SubElement(root, "testsuite", {**about, **_counts(of_it)})
            for one in of_it:
                _case(suite, one)
    if found["stopped"]:
        _stopped(root, found["not_played"])
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _stopped(root: Element, not_played: int) -> None:
    """Who reads nothing but the file must not take the rest for all."""
    suite = SubElement(root, "testsuite", name="the gate itself", tests="1", failures="1")
    case = SubElement(suite, "testcase", classname="gate", name="every scenario was played")
    SubElement(case, "failure", message=f"stopped; scenarios that were not played: {not_played}")
    for count in ("tests", "failures"):
        root.set(count, str(int(root.get(count, "0")) + 1))


def _counts(played: list[Document]) -> dict[str, str]:
    """What both a suite and all of them count."""
    return {
        "tests": str(len(played)),
        "failures": str(sum(one["ok"] is False for one in played)),
        "errors": "0",
        "skipped": str(sum(one["ok"] is None for one in played)),
        "time": f"{sum(one['seconds'] for one in played):.2f}",
    }


def _case(suite: Element, one: Document) -> None:
    place = f" on {one['place']}" if one["place"] else ""
    case = SubElement(
        suite,
        "testcase",
        classname=f"gate.{one['promise']}",
        name=printable(f"{one['name']}{place}"),
        time=f"{one['seconds']:.2f}",
    )
    reason = printable(one["reason"] or "")
    if one["ok"] is False:
        SubElement(case, "failure", message=reason).text = reason
    elif one["ok"] is None:
        SubElement(case, "skipped", message=reason)
    lines = [f"{one['title']}: {told(one)}", *map(_line, one["evidence"])]
    SubElement(case, "system-out").text = "\n".join(map(printable, lines))


def _line(fact: Document) -> str:
    if fact["expected"] is None:
        return f"{fact['what']}: {shown(fact['found'])}".removesuffix(": ")
    mark = "ok" if fact["ok"] else "FAILED"
    return f"{mark}: {fact['what']}: {shown(fact['found'])}, expected {shown(fact['expected'])}"
