"""The document: all that a gate found, as `--json` prints it. The other reports are made of it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bestbefore.domain.finding import Finding
from bestbefore.gate.scenario import Fact, Verdict
from bestbefore.read.documents import Document, when

_LONG = 160


def document(
    verdicts: Sequence[Verdict],
    environment: Document,
    findings: Sequence[Finding],
    started_at: datetime,
    seconds: float,
    not_played: int,
    only: Collection[str] = (),
) -> Document:
    """*not_played* are the scenarios that were left out as somebody stopped the gate, *only* those
    names that were chosen, if it was not played as a whole."""
    return {
        "passed": sum(verdict.ok is True for verdict in verdicts),
        "failed": sum(verdict.ok is False for verdict in verdicts),
        "not_applicable": sum(verdict.ok is None for verdict in verdicts),
        "stopped": not_played > 0,
        "not_played": not_played,
        "only": list(only),
        "started_at": when(started_at),
        "seconds": round(seconds, 1),
        "environment": environment,
        "findings": [
            {"code": f.code, "level": f.level.value, "message": f.message, "remedy": f.remedy}
            for f in findings
        ],
        "promises": [_promise(verdict) for verdict in verdicts],
    }


def has_passed(found: Document) -> bool:
    """Whether all that was tried holds, and something was. What is not applicable is neither."""
    return bool(found["passed"] and not found["failed"] and not found["stopped"])


def shown(value: Any) -> str:
    """A value of the evidence, for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        named = (f"{shown(part)} {name}" for name, part in sorted(value.items()))
        return ", ".join(named) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "nothing"
    text = str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text):,} characters)"


def told(verdict: Document) -> str:
    """How a scenario ended, in a word."""
    return {True: "passed", False: "failed", None: "not applicable"}[verdict["ok"]]


def _promise(verdict: Verdict) -> Document:
    return {
        "name": verdict.scenario.name,
        "promise": verdict.scenario.promise,
        "title": verdict.scenario.title,
        "place": verdict.place,
        "ok": verdict.ok,
        "reason": verdict.reason,
        "seconds": round(verdict.seconds, 2),
        "evidence": [_evidence(fact) for fact in verdict.facts],
    }


def _evidence(fact: Fact) -> Document:
    found, expected = _plain(fact.found), _plain(fact.expected)
    return {"what": fact.what, "found": found, "expected": expected, "ok": fact.ok}


def _plain(value: Any) -> Any:
    """*value* as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        ordered = sorted(value) if isinstance(value, set | frozenset) else value
        return [_plain(part) for part in ordered]
    return str(value)
