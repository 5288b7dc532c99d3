"""Scanning a bucket that keeps versions: entries instead of objects."""

import json

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.selection import Selector, Verdict
from bestbefore.domain.stack import Carried, OutOfOrder, unstack
from bestbefore.ports.objects import KeyRange, ObjectLister, Page, StoreError, VersionLister


def by_version(lister: ObjectLister) -> VersionLister:
    """*lister*, which has to know versions. Raises StoreError where its store does not."""
    if isinstance(lister, VersionLister):
        return lister
    error = "this kind of store keeps no versions; remove `versions` from the policy"
    raise StoreError(Failure(FailureClass.MALFORMED, error, whole_source=True))


def entry_page(
    lister: ObjectLister, source: ObjectSource, keys: KeyRange, selector: Selector
) -> Page:
    """The next entries of *keys*, each knowing its place under its key.

    Where it breaks off within a key, the rest says how far it came and what is carried on.
    """
    behind, carried = _resumed(keys.inside)
    found = by_version(lister).versions(source.bucket, source.prefix, keys, behind)
    try:
        items, carried = unstack(
            found.entries,
            carried,
            lambda item: selector.judge(item) is Verdict.ELIGIBLE,
            unfinished=found.behind is not None,
        )
    except OutOfOrder as error:
        place = f"{source.bucket}/{source.prefix}: {error}"
        raise StoreError(Failure(FailureClass.UNKNOWN, place)) from error
    rest = found.rest
    if rest is not None and found.behind is not None:
        rest = rest._replace(inside=json.dumps([found.behind, carried and carried.dump()]))
    return Page(items, rest)


def _resumed(inside: str | None) -> tuple[str | None, Carried | None]:
    if inside is None:
        return None, None
    behind, carried = json.loads(inside)
    return behind, carried and Carried.load(carried)
