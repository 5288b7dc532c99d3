"""`check` of a policy about objects: can its store be read, and what does it allow and honour?"""

from collections.abc import Iterator, Sequence

from bestbefore.app.system import System
from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import Policy
from bestbefore.ports.objects import (
    UPLOADS,
    KeyRange,
    ObjectDeleter,
    ObjectLister,
    Page,
    StoreError,
    VersionDeleter,
)
from bestbefore.ports.stores import Store
from bestbefore.stages.entries import by_version
from bestbefore.stages.pointer import ask
from bestbefore.stages.survey import PlanRefused


def checked(system: System, policy: Policy) -> Iterator[Finding]:
    """Everything worth saying about *policy*. Deletes nothing."""
    place = f"policies.{policy.name}"
    try:
        store = system.store(policy.connection)
        target = system.survey(policy).target(policy, system.clock.now())
        page = _list_some(store.lister, policy)
        more = [*_tags(store, policy, page), *_pointer(store, policy)]
        if policy.objects.abort_incomplete_uploads:
            store.lister.uploads(policy.objects.bucket, policy.objects.prefix, UPLOADS)
    except PlanRefused as error:
        yield Finding("plan-refused", Level.ERROR, str(error), "")
        return
    except StoreError as error:
        yield Finding(
            f"store-{error.failure.failure_class}",
            Level.ERROR,
            f"{place}: {error}",
            f"look at stores.{policy.connection} and at the rights of its keys",
        )
        return
    yield Finding("store-listed", Level.INFO, f"{place}: {target} can be listed", "")
    more += _deleting(store.deleter, policy)
    if policy.archive is not None:
        more += _archive(system, policy, policy.archive)
    for finding in more:
        yield Finding(finding.code, finding.level, f"{place}: {finding.message}", finding.remedy)


def _tags(store: Store, policy: Policy, page: Page) -> Iterator[Finding]:
    """Whether tags can be read, by those of the first object, if the policy asks for any."""
    if not policy.objects.reads_tags or not page.items:
        return
    key = page.items[0].key
    found = store.lister.tags(policy.objects.bucket, [key])[key]
    if isinstance(found, Failure):
        yield Finding(
            "tags-unreadable",
            Level.ERROR,
            f"tags cannot be read, so everything would be kept: {found.error}",
            "grant s3:GetObjectTagging, or remove tags and lacks_tags",
        )
    else:
        yield Finding("tags-readable", Level.INFO, "tags can be read", "")


def _pointer(store: Store, policy: Policy) -> Iterator[Finding]:
    pointer = ask(store.lister, policy.objects)
    if pointer is None:
        return
    if pointer.problem is None:
        yield Finding("pointer-read", Level.INFO, f"current_pointer {pointer.key} can be read", "")
    else:
        yield Finding(
            "pointer-unreadable",
            Level.WARNING,
            f"current_pointer says nothing, so everything is kept: {pointer.problem}",
            "write the object, or grant s3:GetObject on it",
        )


def _archive(system: System, policy: Policy, archive: Archive) -> Iterator[Finding]:
    try:
        depot = system.depot(archive.store)
        depot.lister.describe(archive.bucket)
    except StoreError as error:
        yield Finding(
            "archive-missing",
            Level.ERROR,
            str(error),
            "create the bucket, or correct archive.bucket and the rights of "
            f"stores.{archive.store}",
        )
        return
    source = policy.objects
    yield from depot.copier.check(source.bucket, source.prefix, archive.bucket, archive.prefix)


def _list_some(lister: ObjectLister, policy: Policy) -> Page:
    """One page of what a plan would list. Raises StoreError."""
    source, everything = policy.objects, KeyRange(None, None)
    if not source.by_version:
        return lister.page(source.bucket, source.prefix, everything)
    found = by_version(lister).versions(source.bucket, source.prefix, everything, None)
    return Page([entry.item for entry in found.entries], found.rest)


def _deleting(deleter: ObjectDeleter, policy: Policy) -> Sequence[Finding]:
    """What deleting as *policy* does it may rely on."""
    source = policy.objects
    if source.by_version and isinstance(deleter, VersionDeleter):
        return deleter.check_versions(source.bucket, source.prefix)
    return deleter.check(source.bucket, source.prefix)
