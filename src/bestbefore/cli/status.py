"""`status`."""

import logging
from pathlib import Path

import click

from bestbefore.app import reporting
from bestbefore.cli.context import emit, opened, verb
from bestbefore.cli.hold import hold_text
from bestbefore.cli.text import counts, printable, size, table
from bestbefore.ports.ledger import LedgerError
from bestbefore.read.documents import Document

log = logging.getLogger(__name__)


@click.command()
@verb
def status(config: Path, as_json: bool) -> None:
    """Is cleanup keeping up, and what stands in its way?"""
    with opened(config) as system:
        try:
            system.schedule.look()
        except LedgerError as error:  # a full disk, say: all the more reason to look at the rest
            log.warning("slots that have come since the last look are not listed: %s", error)
        document = reporting.status(system)
    emit(as_json, document, lambda: _text(document))


def _text(document: Document) -> str:
    lines = [
        table(
            ("policy", "version", "last slot", "state", "backlog", "dead", "held", "overdue",
             "next slot"),
            [
                (row["policy"], row["version"], row["last_slot"],
                 "paused" if row["paused"] else row["state"], row["backlog"], row["dead"],
                 row["held"], row["overdue"], row["next_slot"])
                for row in document["policies"]
            ],
        )
    ]  # fmt: skip
    lines += [
        f"{row['policy']} is paused: {printable(row['paused'])}"
        for row in document["policies"]
        if row["paused"]
    ]
    if (queue := document["queue"])["kind"] != "state":
        lines.append(f"{queue['sent']:,} commands are with the queue ({printable(queue['kind'])})")
    lines += [_missed(missed) for missed in document["missed"]]
    lines += [
        f"{row['policy']} is not in this file; what is left of it waits"
        for row in document["policies"]
        if not row["in_file"]
    ]
    lines += [
        f"{row['policy']} plans batches of {row['batch_size']:,} rows"
        for row in document["policies"]
        if row["batch_size"]
    ]
    lines += [
        f"{row['policy']} was looked at again at {row['verified']['at']}: "
        + (
            f"{row['verified']['overdue']:,} overdue"
            if row["verified"]["overdue"]
            else "nothing overdue"
        )
        for row in document["policies"]
        if row["verified"]
    ]
    lines += [f"held: {hold_text(hold)}" for hold in document["holds"]]
    lines += [
        f"breaker open for {b['connection']} since {b['opened_at']}: {printable(b['reason'])}"
        for b in document["breakers"]
    ]
    lines += [_throttle(t) for t in document["throttles"]]
    if strays := document["strays"]:
        lines.append(
            f"{strays:,} messages execute nothing, and wait for you: `bestbefore dlq list --class "
            "malformed`"
        )
    lines += _state(document["state"])
    return "\n".join(lines)


def _missed(missed: Document) -> str:
    made_up = f" (made up for by run {missed['made_up_by']})" if missed["made_up_by"] else ""
    return f"{missed['policy']} missed {missed['slot']}{made_up}: {printable(missed['reason'])}"


def _throttle(throttle: Document) -> str:
    name, until = throttle["connection"], throttle["until"]
    if throttle["waiting"] is not None:
        return f"{name} asked to slow down: {throttle['waiting']:,} wait until {until}"
    return f"work on {name} waits{(until and f' until {until}') or ''}: " + printable(
        throttle["reason"]
    )


def _state(state: Document) -> list[str]:
    free = f" ({size(state['free_bytes'])} of it free)" if state["free_bytes"] else ""
    growth, upkeep = state["growth"], state["upkeep"]
    lines = [
        f"the ledger takes {size(state['bytes'])}{free} and holds {state['operations']:,} "
        f"operations; in {growth['days']} days {growth['operations']:,} were planned, about "
        f"{size(growth['bytes'])}"
    ]
    if state["keep"] is None:
        lines.append("nothing is taken out of it: [state] keep is not set")
    else:
        did = counts({name: upkeep[name] for name in ("operations", "events")})
        last = f"finished {upkeep['finished_at']}" if upkeep["finished_at"] else "never finished"
        lines.append(
            f"it keeps {state['keep']}, {state['prunable']:,} operations are older; upkeep "
            + (f"is under way, {did} so far" if upkeep["running"] else f"{last}, {did} exported")
        )
    if upkeep["error"]:
        lines.append(f"upkeep failed at {upkeep['failed_at']}: {printable(upkeep['error'])}")
    if state["evidence"]:
        lines.append(
            f"evidence of {state['pruned']:,} older operations: {printable(state['evidence'])}"
        )
    return lines
