"""Questions that take a look at the store as well as at the ledger."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from bestbefore.app.system import Scratch, System
from bestbefore.domain.failure import Failure
from bestbefore.domain.identity import ObjectIds, instant
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.selection import Listed, Selector, Verdict, impossible
from bestbefore.domain.tags import kept_by_tags
from bestbefore.domain.versions import Versions
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.records import OperationFilter, Verification
from bestbefore.read.documents import Document, when
from bestbefore.stages.entries import entry_page
from bestbefore.stages.pointer import ask
from bestbefore.stages.verify import verify

_SAMPLE = 10


def verification(
    system: System, policy: Policy, on_page: Callable[[Run], None], stopping: Callable[[], bool]
) -> Document:
    """What the newest released run's cutoff selects and a fresh listing still shows."""
    newest = system.records.newest_released(policy.name)
    if newest is None:
        raise LedgerError(
            f"policies.{policy.name}: no run was released yet, so nothing can be overdue; "
            f"`bestbefore plan {policy.name}` makes one"
        )
    if newest.policy_version != policy.version:
        raise LedgerError(
            f"policies.{policy.name}: the newest released run is of version "
            f"{newest.policy_version}, and the file has {policy.version}; plan that first"
        )
    lister = system.store(policy.connection).lister
    here = lister.describe(policy.source.bucket).target(policy.source.bucket, policy.source.prefix)
    if newest.target != here:
        # A listing of another place would prove nothing, least of all that nothing is overdue.
        raise LedgerError(
            f"policies.{policy.name}: the newest released run looked at {newest.target}, this "
            f"configuration looks at {here}; take the change back, or plan there first"
        )
    at = system.clock.now()
    with system.scratch() as scratch:
        drawn = verify(
            policy,
            newest.slot,
            lister,
            scratch.plans,
            system.clock,
            system.spread,
            on_page,
            stopping,
            system.held(policy),
            system.plans.known,
        )
        sample = [operation.key for operation in scratch.records.operations(
            OperationFilter(), _SAMPLE)]  # fmt: skip
        oldest = scratch.records.oldest(drawn)
    held = drawn.already_pending
    system.records.save_verification(policy.name, Verification(at, drawn.planned, oldest, held))
    return {
        "policy": policy.name,
        "policy_version": policy.version,
        "run_id": newest.run_id,
        "cutoff": when(drawn.cutoff),
        "scanned": drawn.scanned,
        "overdue": drawn.planned,
        "oldest_overdue": when(oldest),
        "held": held,
        "protected": dict(drawn.protected),
        "sample": sample,
        "at": when(at),
    }


def explanation(
    system: System,
    policy: Policy,
    key: str,
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
) -> Document:
    """Why *key* stays or goes under *policy*, were it planned now."""
    eligible, reasons = False, []
    if (problem := impossible(key)) is not None:
        reasons.append(f"{problem}: no store can hold it")
    elif policy.source.by_version:
        eligible, reasons = _judge_entries(system, policy, key)
    else:
        found = system.store(policy.connection).lister.look(policy.source.bucket, [key])[key]
        match found:
            case None:
                reasons.append(f"there is no such object in {policy.source.bucket}")
            case Failure():
                raise StoreError(found)
            case _:
                eligible, reasons = _judge(system, policy, found, on_page, stopping)
    reasons += _history(system, policy, key)
    return {"policy": policy.name, "key": key, "eligible": eligible, "reasons": reasons}


def _judge(
    system: System,
    policy: Policy,
    found: Listed,
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
) -> tuple[bool, list[str]]:
    now = system.clock.now().replace(microsecond=0)
    cutoff = policy.older_than.before(now)
    selector = Selector.of(policy.source, cutoff, now, policy.added_bytes)
    verdict = selector.judge(found)
    if verdict is not Verdict.ELIGIBLE:
        return False, [_why_not(verdict, policy, found, cutoff)]
    reasons = [
        f"last modified {instant(found.last_modified)}, before the cutoff "
        f"{instant(cutoff)}, and in scope"
    ]
    if (hold := system.held(policy).over(found.key)) is not None:
        return False, [*reasons, f"but it is under hold {hold}"]
    if policy.source.reads_tags:
        if (kept := _kept_by_tags(system, policy, found.key)) is not None:
            return False, [*reasons, f"but {kept}"]
        reasons.append("its tags select it")
    if policy.source.keeps_some:
        # Only a whole listing tells what is among the newest.
        with system.scratch() as scratch:
            planner = system.planner(policy, on_page, stopping)
            run = planner.preview(policy, now, scratch.plans, Trigger.PLAN)
            if not _selected(policy, found, scratch):
                pointed = _pointed_at(system, policy, found.key, scratch.plans.generations(run.row))
                kept = ", ".join(f"{n:,} by {name}" for name, n in run.protected.items())
                newest = f"it is among the newest, which are kept ({kept})"
                return False, [*reasons, f"but {pointed or newest}"]
    return True, reasons


def _kept_by_tags(system: System, policy: Policy, key: str) -> str | None:
    found = system.store(policy.connection).lister.tags(policy.source.bucket, [key])[key]
    if found is None:
        return "it is gone by now"
    if isinstance(found, Failure):
        return f"its tags cannot be read, so it is kept: {found.error}"
    return kept_by_tags(policy.source, found)


def _pointed_at(
    system: System, policy: Policy, key: str, generations: Collection[str]
) -> str | None:
    """Why *key* is kept by what the policy's pointer says, if it is."""
    pointer = ask(system.store(policy.connection).lister, policy.source)
    if pointer is None:
        return None
    if (problem := pointer.why_all(generations)) is not None:
        return f"current_pointer says nothing, so everything is kept: {problem}"
    at = system.clock.now()
    generation = Selector.of(policy.source, at, at).generation(key)
    named = generation in pointer.names(generations)
    return f"{pointer.key} names its generation {generation}" if named else None


def _judge_entries(system: System, policy: Policy, key: str) -> tuple[bool, list[str]]:
    """A reason for each entry under *key*, the newest last; the first thousand of them."""
    now = system.clock.now().replace(microsecond=0)
    if (hold := system.held(policy).over(key)) is not None:
        return False, [f"it is under hold {hold}"]
    source, cutoff = policy.source, policy.older_than.before(now)
    selector = Selector.of(source, cutoff, now)
    page = entry_page(
        system.store(policy.connection).lister,
        replace(source, prefix=key),
        KeyRange(None, None),
        selector,
    )
    found = [item for item in page.items if item.key == key]
    if not found:
        return False, [f"there is no version of it in {source.bucket}"]
    eligible, reasons = False, []
    for item in found:
        verdict = selector.judge(item)
        goes = verdict is Verdict.ELIGIBLE
        eligible |= goes
        why = "goes" if goes else f"stays: {_why_not(verdict, policy, item, cutoff)}"
        reasons.append(f"{_described(item)}: {why}")
    if source.keeps_some:
        reasons.append("unless it is among the newest that are kept, which a plan will tell")
    return eligible, reasons


def _described(item: Listed) -> str:
    version = item.version
    if version is None:
        return item.key
    kind = "delete marker" if version.marker else "version"
    if version.since is None:
        return f"newest {kind} {version.id}, written {instant(item.last_modified)}"
    return (
        f"{kind} {version.id}, written {instant(item.last_modified)}, "
        f"followed {instant(version.since)}"
    )


def _why_not(verdict: Verdict, policy: Policy, found: Listed, cutoff: datetime) -> str:
    modified = instant(found.last_modified)
    return {
        Verdict.OUTSIDE: f"it is outside the policy's scope ({_scope(policy)})",
        Verdict.YOUNG: f"{_since(policy, found)}, not before the cutoff {instant(cutoff)}",
        Verdict.CURRENT: "it is the newest under its key, and only those before it go",
        Verdict.COVERS_KEPT: "it is the newest under its key, over others that stay, which would "
        "come back",
        Verdict.FUTURE_DATE: f"last modified {modified}, which lies in the future",
        Verdict.SIZE: f"its size, {found.size:,} bytes, is outside min_size and max_size",
        Verdict.STORAGE_CLASS: f"its storage class is {found.storage_class}, which is not one of "
        f"{', '.join(policy.source.storage_class)}",
        Verdict.POINTER: "it is the policy's current_pointer, which is never selected",
        Verdict.FOLDER_MARKER: 'it is an empty folder marker, and folder_markers is "keep"',
        Verdict.NO_GENERATION: f"no generation can be read with {policy.source.generation}",
        Verdict.REFUSED: impossible(found.key, policy.added_bytes) or "",
    }[verdict]


def _since(policy: Policy, found: Listed) -> str:
    if policy.source.versions is Versions.NONCURRENT and found.version is not None:
        return f"newest until {instant(found.version.since or found.last_modified)}"
    return f"last modified {instant(found.last_modified)}"


def _selected(policy: Policy, found: Listed, scratch: Scratch) -> bool:
    ids = ObjectIds(policy.name, policy.version, policy.source.bucket)
    operation_id = ids.of(found.key, found.etag, found.last_modified)
    which = OperationFilter(operation_id=operation_id)
    return next(scratch.records.operations(which, 1), None) is not None


def _history(system: System, policy: Policy, key: str) -> list[str]:
    """What the ledger holds of the key: one line per operation on it."""
    lines = []
    for operation in system.records.operations(OperationFilter(policy.name, key=key)):
        line = f"run {operation.run_id} planned it ({instant(operation.last_modified)}): "
        line += operation.outcome or operation.state
        if operation.completed_at:
            line += f" at {instant(operation.completed_at)}"
        if operation.reason and operation.outcome is Outcome.PROTECTED:
            line += f" ({operation.reason})"
        if operation.error and operation.outcome is None:
            line += f", {operation.failure_class}: {operation.error}"
        lines.append(line)
    if not lines and (state := system.state())["evidence"]:
        lines.append(
            "the ledger holds no operation on it; evidence of what completed longer ago than "
            f"[state] keep ({state['keep']}) is in {state['evidence']}"
        )
    return lines


def _scope(policy: Policy) -> str:
    source = policy.source
    scope = f"prefix {source.prefix!r}" if source.prefix else "the whole bucket"
    if source.match:
        scope += f", match {source.match!r}"
    if source.regex:
        scope += f", regex {source.regex!r}"
    return scope
