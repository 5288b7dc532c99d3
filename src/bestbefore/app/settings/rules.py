"""Rules about several keys together.

They look at the file as it was written, so that they also speak where something else is wrong:
what has another type than expected is left to `shape`.
"""

from collections.abc import Iterator

from bestbefore.app import plugins
from bestbefore.app.settings import (
    archive_rules,
    kinds,
    queue_rules,
    row_rules,
    schedule_rules,
    values,
)
from bestbefore.app.settings.problems import Place, Problem, Unfit, section, shown
from bestbefore.app.settings.raw import Raw, named, part
from bestbefore.app.settings.schema import NAMED, StoreSection
from bestbefore.app.settings.serve_values import STANDARD_HEADER
from bestbefore.domain.selection import MAX_KEY_BYTES

_OF_OBJECTS = ("storage_class", "tags", "lacks_tags")
"""Keys about what only a stored object has."""


def check(raw: Raw) -> Iterator[Problem]:
    """Everything that several keys of the file get wrong together."""
    for name in NAMED:
        yield from _names(name, part(raw, name))
    yield from queue_rules.check(raw)
    stores, databases = part(raw, "stores"), part(raw, "databases")
    kind = part(raw, "schedule").get("kind", "embedded")
    yield from schedule_rules.check(part(raw, "schedule"))
    yield from _credentials(("schedule",), part(raw, "schedule"))
    yield from _signed_time(part(raw, "serve"))
    for name, store in stores.items():
        if isinstance(store, dict):
            yield from _kind(("stores", name), store)
    for name, database in databases.items():
        if isinstance(database, dict):
            yield from row_rules.database(("databases", name), database, stores)
    for name, policy in part(raw, "policies").items():
        if not isinstance(policy, dict):
            continue
        yield from _source(("policies", name), policy)
        yield from _catch_up(("policies", name), policy, kind)
        yield from archive_rules.check(("policies", name), policy, stores)
        if rows := part(policy, "rows"):
            yield from row_rules.rows(("policies", name, "rows"), policy, rows, databases)
        if objects := part(policy, "objects"):
            place = ("policies", name, "objects")
            yield from named(place, objects, "store", stores)
            yield from _scope(place, objects)
            yield from _folders(place, objects, stores)
            yield from _choice(place, objects)
            yield from _kept(place, objects)
            yield from _uploads(place, objects)
            yield from _tags(place, objects)
            yield from _able(place, objects, stores)
            yield from _versions(place, objects)
            if "versions" in objects and policy.get("action") == "archive":
                yield Problem(
                    (*place, "versions"),
                    "single versions are not archived, and a hidden object needs no archive",
                    'remove it, or write action = "delete"',
                )


def _names(sort: str, sections: Raw) -> Iterator[Problem]:
    for name in sections:
        if not values.NAME.fullmatch(name):
            yield Problem(
                (sort, name),
                f"expected a name such as weekly-exports, found {shown(name)}",
                f"use at most 100 {values.NAME_RULE}",
            )


def _signed_time(serve: Raw) -> Iterator[Problem]:
    header = serve.get("hmac_header", STANDARD_HEADER)
    if "hmac_timestamp_header" not in serve or not isinstance(header, str):
        return
    if header.lower() == STANDARD_HEADER:
        yield Problem(
            ("serve", "hmac_timestamp_header"),
            f"{STANDARD_HEADER} has its time in webhook-timestamp",
            "remove it, or name the header of the signature in hmac_header",
        )


def _catch_up(place: Place, policy: Raw, kind: object) -> Iterator[Problem]:
    if policy.get("catch_up") != "now":
        return
    why = None
    if "schedule" not in policy:
        why = "a policy without a schedule misses nothing"
    elif kind != "embedded":
        why = f"[schedule] kind = {shown(kind)} starts no runs of this process"
    if why is not None:
        yield Problem((*place, "catch_up"), f'"now" has no effect: {why}', "remove it")


def _credentials(place: Place, store: Raw) -> Iterator[Problem]:
    pair = ("access_key_id", "secret_access_key")
    given = [key for key in pair if store.keys() & {key, f"{key}_env", f"{key}_file"}]
    if len(given) == 1:
        other = next(key for key in pair if key not in given)
        yield Problem(
            (*place, other),
            f"expected it beside {given[0]}, found none",
            f"add {other}_env, or leave both out for boto3's own credential chain",
        )


def _kind(place: Place, store: Raw) -> Iterator[Problem]:
    """What one kind of store takes means nothing to the other."""
    kind = store.get("kind")
    if kinds.brought_along(kind, kinds.STORES, plugins.STORES):
        for key in sorted(store.keys() - {"kind", "options"} & StoreSection.model_fields.keys()):
            yield Problem(
                (*place, key),
                f"a store of kind {shown(kind)} is the adapter of another package and has none",
                f"write what that adapter takes into {section((*place, 'options'))}",
            )
        return
    if kind in kinds.STORES and "options" in store:
        yield Problem(
            (*place, "options"),
            f"a store of kind {shown(kind)} has none",
            f"write its keys into {section(place)}; options are for adapters of other packages",
        )
    if kind != "directory":
        yield from _credentials(place, store)
    if kind == "directory":
        others = StoreSection.model_fields.keys() - {"kind", "root", "options"}
        for key in sorted(store.keys() & others):
            yield Problem(
                (*place, key),
                'a store of kind "directory" has none',
                'remove it, or write kind = "s3"',
            )
        if "root" not in store:
            yield Problem(
                (*place, "root"),
                "expected the folder whose folders are the buckets, found none",
                'add root = "/srv/data"',
            )
    elif kind == "s3" and "root" in store:
        yield Problem(
            (*place, "root"),
            'a store of kind "s3" has none',
            'remove it, or write kind = "directory"',
        )


def _folders(place: Place, objects: Raw, stores: Raw) -> Iterator[Problem]:
    """Keys of a directory store are paths below the bucket: so is a pointer, so begins a prefix."""
    if _store_kind(objects, stores) != "directory":
        return
    for key, whole in (("prefix", False), ("current_pointer", True)):
        written = objects.get(key)
        if not isinstance(written, str):
            continue
        parts = written.split("/") if whole else written.split("/")[:-1]
        if not {"", ".", ".."}.isdisjoint(parts):
            yield Problem(
                (*place, key),
                f"expected a path below the bucket, found {shown(written)}",
                'write names and "/" between them, without "/" at the beginning, "//", "." or ".."',
            )


def _store_kind(objects: Raw, stores: Raw) -> object:
    name = objects.get("store")
    return part(stores, name).get("kind") if isinstance(name, str) else None


def _source(place: Place, policy: Raw) -> Iterator[Problem]:
    """A policy is about objects or about rows."""
    if "objects" in policy and "rows" in policy:
        yield Problem(
            (*place, "rows"),
            "expected objects or rows, found both",
            "keep one, and give the other a policy of its own",
        )
    elif "objects" not in policy and "rows" not in policy:
        yield Problem(
            (*place, "objects"),
            "expected this section, found none",
            f"add {section((*place, 'objects'))}, or {section((*place, 'rows'))} for rows of a "
            "table",
        )


def _scope(place: Place, objects: Raw) -> Iterator[Problem]:
    where = (*place, "prefix")
    whole = objects.get("whole_bucket") is True
    if "prefix" not in objects:
        if not whole:
            yield Problem(
                where,
                "expected a prefix, found none",
                'add prefix = "exports/", or whole_bucket = true for everything in the bucket',
            )
        return
    if whole:
        yield Problem(
            where, "expected a prefix or whole_bucket = true, found both", "remove one of them"
        )
    elif isinstance(prefix := objects["prefix"], str):
        try:
            _prefix(prefix, literal=objects.get("prefix_is_literal") is True)
        except Unfit as fault:
            yield Problem(where, fault.message, fault.remedy)


def _prefix(prefix: str, *, literal: bool) -> None:
    if not prefix.strip():
        raise Unfit(
            f"expected the beginning of the keys, found {shown(prefix)}",
            "write it, or whole_bucket = true instead for everything in the bucket",
        )
    values.resolved(prefix)
    if len(prefix.encode()) > MAX_KEY_BYTES:
        raise Unfit(f"no key is longer than {MAX_KEY_BYTES:,} bytes", "shorten it")
    if not literal and not prefix.endswith("/"):
        raise Unfit(
            f'expected a prefix that ends in "/", found {shown(prefix)}',
            f"write {shown(prefix + '/')}, or add prefix_is_literal = true to take every key that "
            "begins like this",
        )


def _choice(place: Place, objects: Raw) -> Iterator[Problem]:
    if "match" in objects and "regex" in objects:
        yield Problem((*place, "match"), "expected match or regex, found both", "keep one")
    try:
        smallest, largest = (values.size(objects[key]) for key in ("min_size", "max_size"))
    except (KeyError, Unfit):
        return
    if smallest > largest:
        yield Problem(
            (*place, "min_size"),
            f"{shown(objects['min_size'])} is more than max_size, so nothing fits both",
            "correct one of them",
        )


def _tags(place: Place, objects: Raw) -> Iterator[Problem]:
    lacks = objects.get("lacks_tags")
    names = [lacks] if isinstance(lacks, str) else lacks if isinstance(lacks, list) else []
    for name in part(objects, "tags"):
        if name in names:
            yield Problem(
                (*place, "lacks_tags"),
                f"{shown(name)} is in tags too, so nothing fits both",
                "remove it from one of them",
            )
    if "tags" in objects and "keep_last" in objects:
        yield Problem(
            (*place, "keep_last"),
            "expected it without tags, found both (objects without the tags would count among the "
            "last, and the last ones that have them could go)",
            "remove one of them; lacks_tags, keep_generations and current_pointer go with both",
        )


def _able(place: Place, objects: Raw, stores: Raw) -> Iterator[Problem]:
    """What only some kinds of stores know of their objects."""
    if _store_kind(objects, stores) == "directory":
        for key in (*_OF_OBJECTS, "folder_markers", "abort_incomplete_uploads", "versions"):
            if key in objects:
                yield Problem(
                    (*place, key),
                    f'{objects["store"]} is a store of kind "directory", where files have no such '
                    "thing",
                    f"remove {key}",
                )


def _uploads(place: Place, objects: Raw) -> Iterator[Problem]:
    told_apart = [key for key in _OF_OBJECTS if key in objects]
    if objects.get("abort_incomplete_uploads") is True and told_apart:
        yield Problem(
            (*place, "abort_incomplete_uploads"),
            f"unfinished uploads cannot be told apart by {' and '.join(told_apart)}",
            "give them a policy of their own, with the same prefix",
        )


def _kept(place: Place, objects: Raw) -> Iterator[Problem]:
    if "generation" in objects and not objects.keys() & {"keep_generations", "current_pointer"}:
        yield Problem(
            (*place, "keep_generations"),
            "expected it beside generation, found none (generation alone would protect nothing)",
            "add keep_generations or current_pointer, or remove generation",
        )
    for key, needed, why in (
        ("current_pointer", "generation", "without it a pointer would name nothing"),
        ("keep_generations", "generation", "without it no generation can be told from another"),
        ("keep_last_group", "keep_last", "a group alone would protect nothing"),
        ("keep_last_min_size", "keep_last", "a size alone would protect nothing"),
    ):
        if key in objects and needed not in objects:
            yield Problem(
                (*place, needed),
                f"expected it beside {key}, found none ({why})",
                f"add {needed}, or remove {key}",
            )


def _versions(place: Place, objects: Raw) -> Iterator[Problem]:
    chosen = objects.get("versions")
    if objects.get("bypass_governance") is True and chosen not in ("noncurrent", "purge"):
        yield Problem(
            (*place, "bypass_governance"),
            'expected versions = "noncurrent" or "purge" beside it, as only the removal of a '
            "version can be stopped by a retention",
            "remove it, or choose one of them",
        )
    for key in ("tags", "lacks_tags"):
        if key in objects and chosen in ("noncurrent", "purge"):
            yield Problem(
                (*place, key),
                "it is read of the objects that readers see, not of their single versions",
                f'remove it, or write versions = "marker" (not {shown(chosen)})',
            )
    if "keep_last" in objects and chosen == "noncurrent":
        yield Problem(
            (*place, "keep_last"),
            "it counts the objects that readers see, none of which "
            'versions = "noncurrent" ever touches; it does not count versions of one key',
            "remove it",
        )
