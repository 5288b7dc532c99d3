"""Rules about where policies archive to."""

from collections.abc import Iterator, Mapping

from bestbefore.app.settings import kinds
from bestbefore.app.settings.model import StoreSettings
from bestbefore.app.settings.problems import Place, Problem, section, shown
from bestbefore.app.settings.raw import Raw, named
from bestbefore.domain.policy import Policy


def check(place: Place, policy: Raw, stores: Raw) -> Iterator[Problem]:
    """What is wrong with the archive of the policy at *place*."""
    wanted = policy.get("action") == "archive"
    if wanted != ("archive" in policy):
        about = "table, or store, bucket and format" if "rows" in policy else "store and bucket"
        yield (
            Problem(
                (*place, "archive"),
                'expected this section beside action = "archive", found none',
                f"add {section((*place, 'archive'))} with {about}",
            )
            if wanted
            else Problem(
                (*place, "archive"),
                'it is of no use without action = "archive"',
                "write that, or remove the section",
            )
        )
    archive = policy.get("archive")
    if not isinstance(archive, dict):
        return
    where = (*place, "archive")
    if "rows" in policy:
        yield from _of_rows(where, archive, stores)
    else:
        yield from _of_objects(where, archive, stores)


def _of_objects(place: Place, archive: Raw, stores: Raw) -> Iterator[Problem]:
    yield from named(place, archive, "store", stores)
    for key, example in (("store", '"cold"'), ("bucket", '"archive"')):
        if key not in archive:
            yield Problem(
                (*place, key),
                "expected this key, found none",
                f"add {key} = {example} to {section(place)}",
            )
    for key in ("format", "table"):
        if key in archive:
            yield Problem(
                (*place, key), "objects are copied as they are, to a bucket", f"remove {key}"
            )


def _of_rows(place: Place, archive: Raw, stores: Raw) -> Iterator[Problem]:
    if "table" in archive:
        for key in sorted(archive.keys() & {"store", "bucket", "prefix", "format"}):
            yield Problem(
                (*place, key),
                "rows go either to a table or to files in a store, found both",
                f"remove {key}, or remove table",
            )
        return
    if "store" not in archive:
        yield Problem(
            (*place, "table"),
            "expected where the rows go, found none",
            f'add table = "orders_archive", or store, bucket and format, to {section(place)}',
        )
        return
    yield from named(place, archive, "store", stores)
    for key, example in (("bucket", '"archive"'), ("format", '"jsonl" or "parquet"')):
        if key not in archive:
            yield Problem(
                (*place, key),
                "expected this key beside store, found none",
                f"add {key} = {example} to {section(place)}",
            )


def places(
    policies: Mapping[str, Policy], stores: Mapping[str, StoreSettings]
) -> Iterator[Problem]:
    """What is wrong with the places that policies archive to, once all of them are known."""
    for name, policy in policies.items():
        if policy.archive is None:
            continue
        place = ("policies", name, "archive")
        here, there = stores[policy.objects.store], stores[policy.archive.store]
        if (apart := _apart(here, there)) is not None:
            yield Problem((*place, "store"), *apart)
        elif policy.objects.bucket == policy.archive.bucket:
            beginnings = policy.objects.prefix, policy.archive.prefix
            if beginnings[0].startswith(beginnings[1]) or beginnings[1].startswith(beginnings[0]):
                yield Problem(
                    (*place, "prefix"),
                    f"{shown(beginnings[1])} and the policy's own {shown(beginnings[0])} are in "
                    "one bucket and one lies in the other: it would archive its archive",
                    'use another bucket, or a prefix beside it such as "archive/"',
                )


def _apart(here: StoreSettings, there: StoreSettings) -> tuple[str, str] | None:
    """Why no copy gets from one store into the other, and what to do; None if it does."""
    if here.kind not in kinds.STORES:
        if here == there:
            return None
        return (
            f"the adapter of another package copies within one store, and {there.name} is not "
            f"{here.name}",
            f"write store = {shown(here.name)}, with another bucket",
        )
    if (here.kind, there.kind) != ("s3", "s3"):
        return "only a store of kind s3 makes copies", "use two such stores"
    if here.endpoint_url != there.endpoint_url:
        return (
            f"server-side copy needs one endpoint: {here.name} is at "
            f"{here.endpoint_url or 'AWS'}, {there.name} at {there.endpoint_url or 'AWS'}",
            "archive into a bucket of the same endpoint; a store's own replication can take it "
            "elsewhere",
        )
    return None
