"""Why an object stays or goes: a look at the store, and what the ledger holds of it."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from bestbefore.app import reporting
from bestbefore.app.system import Scratch, System
from bestbefore.domain.failure import Failure
from bestbefore.domain.identity import ObjectIds, instant
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.selection import Listed, Selector, Verdict, impossible
from bestbefore.domain.tags import kept_by_tags
from bestbefore.domain.versions import Versions
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.records import OperationFilter
from bestbefore.read.history import history_line
from bestbefore.stages.entries import entry_page
from bestbefore.stages.pointer import ask


def explained(
    system: System,
    policy: Policy,
    key: str,
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
) -> tuple[bool, list[str]]:
    """Whether *key* goes under *policy*, were it planned now, and why."""
    eligible, reasons = False, []
    if (problem := impossible(key)) is not None:
        reasons.append(f"{problem}: no store can hold it")
    elif policy.objects.by_version:
        eligible, reasons = _judge_entries(system, policy, key)
    else:
        found = system.store(policy.connection).lister.look(policy.objects.bucket, [key])[key]
        match found:
            case None:
                reasons.append(f"there is no such object in {policy.objects.bucket}")
            case Failure():
                raise StoreError(found)
            case _:
                eligible, reasons = _judge(system, policy, found, on_page, stopping)
    return eligible, reasons + _history(system, policy, key)


def _judge(
    system: System,
    policy: Policy,
    found: Listed,
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
) -> tuple[bool, list[str]]:
    now = system.clock.now().replace(microsecond=0)
    cutoff = policy.older_than.before(now)
    selector = Selector.of(policy.objects, cutoff, now, policy.added_bytes)
    verdict = selector.judge(found)
    if verdict is not Verdict.ELIGIBLE:
        return False, [_why_not(verdict, policy, found, cutoff)]
    reasons = [
        f"last modified {instant(found.last_modified)}, before the cutoff "
        f"{instant(cutoff)}, and in scope"
    ]
    if (hold := system.held(policy).over(found.key)) is not None:
        return False, [*reasons, f"but it is under hold {hold}"]
    if policy.objects.reads_tags:
        if (kept := _kept_by_tags(system, policy, found.key)) is not None:
            return False, [*reasons, f"but {kept}"]
        reasons.append("its tags select it")
    if policy.objects.keeps_some:
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
    found = system.store(policy.connection).lister.tags(policy.objects.bucket, [key])[key]
    if found is None:
        return "it is gone by now"
    if isinstance(found, Failure):
        return f"its tags cannot be read, so it is kept: {found.error}"
    return kept_by_tags(policy.objects, found)


def _pointed_at(
    system: System, policy: Policy, key: str, generations: Collection[str]
) -> str | None:
    """Why *key* is kept by what the policy's pointer says, if it is."""
    pointer = ask(system.store(policy.connection).lister, policy.objects)
    if pointer is None:
        return None
    if (problem := pointer.why_all(generations)) is not None:
        return f"current_pointer says nothing, so everything is kept: {problem}"
    at = system.clock.now()
    generation = Selector.of(policy.objects, at, at).generation(key)
    named = generation in pointer.names(generations)
    return f"{pointer.key} names its generation {generation}" if named else None


def _judge_entries(system: System, policy: Policy, key: str) -> tuple[bool, list[str]]:
    """A reason for each entry under *key*, the newest last; the first thousand of them."""
    now = system.clock.now().replace(microsecond=0)
    if (hold := system.held(policy).over(key)) is not None:
        return False, [f"it is under hold {hold}"]
    source, cutoff = policy.objects, policy.older_than.before(now)
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
        f"{', '.join(policy.objects.storage_class)}",
        Verdict.POINTER: "it is the policy's current_pointer, which is never selected",
        Verdict.FOLDER_MARKER: 'it is an empty folder marker, and folder_markers is "keep"',
        Verdict.NO_GENERATION: f"no generation can be read with {policy.objects.generation}",
        Verdict.REFUSED: impossible(found.key, policy.added_bytes) or "",
    }[verdict]


def _since(policy: Policy, found: Listed) -> str:
    if policy.objects.versions is Versions.NONCURRENT and found.version is not None:
        return f"newest until {instant(found.version.since or found.last_modified)}"
    return f"last modified {instant(found.last_modified)}"


def _selected(policy: Policy, found: Listed, scratch: Scratch) -> bool:
    ids = ObjectIds(policy.name, policy.version, policy.objects.bucket)
    operation_id = ids.of(found.key, found.etag, found.last_modified)
    which = OperationFilter(operation_id=operation_id)
    return next(scratch.records.operations(which, 1), None) is not None


def _history(system: System, policy: Policy, key: str) -> list[str]:
    """What the ledger holds of the key: one line per operation on it."""
    which = OperationFilter(policy.name, key=key)
    lines = [history_line(operation) for operation in system.records.operations(which)]
    if not lines and (state := reporting.state(system))["evidence"]:
        lines.append(
            "the ledger holds no operation on it; evidence of what completed longer ago than "
            f"[state] keep ({state['keep']}) is in {state['evidence']}"
        )
    return lines


def _scope(policy: Policy) -> str:
    source = policy.objects
    scope = f"prefix {source.prefix!r}" if source.prefix else "the whole bucket"
    if source.match:
        scope += f", match {source.match!r}"
    if source.regex:
        scope += f", regex {source.regex!r}"
    return scope
