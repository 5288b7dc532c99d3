"""Send dead letters again, one or many, or put a corrected operation in the place of one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from bestbefore.domain.failure import Failure
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.policy import Policy
from bestbefore.domain.selection import Selector, Verdict, impossible
from bestbefore.domain.versions import Versions
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import DeadFilter, DeadLetter, DeadLetters, LedgerError
from bestbefore.ports.objects import ObjectLister
from bestbefore.ports.strays import Strays
from bestbefore.stages.entries import by_version


class CorrectionRefused(LedgerError):
    """The corrected target is not one this policy selects."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a redrive did, or would do.

    ``refused`` were meant but cannot run: their version is no longer current, or else they are
    among the ``strays``, messages that no operation is behind. ``remaining`` were meant but left
    for after the canary.
    """

    redriven: int
    refused: int
    remaining: int
    strays: int


def redrive(
    ledger: DeadLetters,
    strays: Strays,
    which: DeadFilter,
    clock: Clock,
    by: str,
    *,
    rate: float | None = None,
    canary: int | None = None,
    dry_run: bool = False,
) -> Redriven:
    """Send the dead letters *which* selects again, each with a fresh budget and the same id.

    *rate* spreads them out, so many a second; *canary* sends only the first so many, so that a
    person can look before sending the rest. A dry run only counts.
    """
    able = replace(which, superseded=False)
    meant = ledger.count(which)
    possible = 0 if which.superseded else ledger.count(able)
    chosen = possible if canary is None else min(possible, canary)
    redriven = chosen
    if not dry_run and chosen:
        letters = ledger.dead(able, canary)
        now = clock.now()
        gap = timedelta(seconds=1 / rate) if rate else timedelta(0)
        due = [now + n * gap for n in range(len(letters))]
        redriven = ledger.redrive([letter.row for letter in letters], due, by, now)
    lost = strays.count(which)
    return Redriven(redriven, meant - possible + lost, possible - chosen, lost)


def correct(
    ledger: DeadLetters,
    letter: DeadLetter,
    key: str,
    policy: Policy,
    lister: Callable[[], ObjectLister],
    clock: Clock,
    by: str,
    *,
    version: str | None = None,
    dry_run: bool = False,
) -> bytes:
    """Close *letter* as corrected and plan the object *key* in its place, linked to it.

    *lister* is that of the policy's store. Where the policy is about single versions, it is the
    *version* of it. The object passes the
    same checks as in a plan of that slot. Returns its operation id. Raises CorrectionRefused where
    it does not pass them, and StoreError.
    """
    if letter.batch is not None:
        raise CorrectionRefused(
            "--set: a row batch cannot be corrected, as it is what was planned: correct what is "
            "wrong with its rows and redrive it, or discard it"
        )
    if letter.upload_id is not None:
        raise CorrectionRefused("--set key: this is an unfinished upload, which no key can correct")
    if (problem := impossible(key)) is not None:
        raise CorrectionRefused(f"--set key: {problem}")
    place = f"{policy.objects.bucket}/{key}"
    if policy.objects.by_version == (version is None):
        needed = "takes" if policy.objects.by_version else "knows no"
        raise CorrectionRefused(
            f"--set: policy {policy.name} {needed} version=ID beside key={key}; "
            f"`bestbefore explain {policy.name} KEY` lists the ids there are"
        )
    if version is not None:
        wanted = (key, version)
        found = by_version(lister()).look_at(policy.objects.bucket, [wanted])[wanted]
        place += f"?versionId={version}"
    else:
        found = lister().look(policy.objects.bucket, [key])[key]
    if policy.objects.keep_last:
        raise CorrectionRefused(
            f"--set key: what keep_last of policy {policy.name} protects takes a whole listing to "
            "know; leave the corrected object to the next run and discard this dead letter"
        )
    if isinstance(found, Failure):
        raise CorrectionRefused(f"--set key: {place} could not be looked at: {found.error}")
    if found is None:
        raise CorrectionRefused(f"--set key: there is no object {place}")
    if (
        policy.objects.versions is Versions.PURGE
        and found.version is not None
        and found.version.last_to_go
    ):
        raise CorrectionRefused(
            f"--set key: {place} is the newest under its key, and others under it would come back; "
            "leave it to the next run"
        )
    cutoff = policy.older_than.before(letter.slot)
    selector = Selector.of(policy.objects, cutoff, clock.now(), policy.added_bytes)
    verdict = selector.judge(found)
    if verdict is not Verdict.ELIGIBLE:
        raise CorrectionRefused(
            f"--set key: policy {policy.name} does not select {place} ({verdict})"
        )
    ids = ObjectIds(policy.name, policy.version, policy.objects.bucket)
    operation_id = ids.of(found.key, found.etag, found.last_modified, found.version_id)
    if not dry_run:
        ledger.correct(letter.row, operation_id, found, by, clock.now())
    return operation_id
