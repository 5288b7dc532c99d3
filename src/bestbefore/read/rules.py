"""What a policy version does, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

Rule = Mapping[str, Any]
"""`Policy.decides`, as the ledger keeps it."""

_VERSIONS = {
    "marker": "A delete marker hides them; their versions stay.",
    "noncurrent": "Only versions that stopped being current before then are removed.",
    "purge": "Every version under such a key is removed, the newest last.",
}
_PARTITIONS = {
    "detach": "Partitions that are old as a whole are detached.",
    "drop": "Partitions that are old as a whole are dropped.",
}


def rule_sentences(rule: Rule) -> list[str]:
    """What goes into a run, what happens to it and what stays whatever its age; the first sentence
    is the rule, the others narrow it down or add to it."""
    about_rows = "rows.table" in rule
    return list(_row_sentences(rule) if about_rows else _object_sentences(rule))


def _object_sentences(rule: Rule) -> Iterator[str]:
    store, bucket, prefix = (rule[f"objects.{part}"] for part in ("store", "bucket", "prefix"))
    pattern = rule.get("objects.match") or rule.get("objects.regex")
    matching = f" match {pattern} and" if pattern else ""
    into = f"{rule.get('archive.bucket')}/{rule.get('archive.prefix')}"
    yield (
        f"Objects in {bucket}/{prefix} in the store {store} that{matching} are older than "
        f"{rule['older_than']} are {_fate(rule, into)}"
    )
    if said := _VERSIONS.get(str(rule.get("objects.versions"))):
        yield said
    if rule.get("objects.abort_incomplete_uploads"):
        yield "Unfinished uploads of that age are aborted."
    if rule.get("objects.bypass_governance"):
        yield "A retention in governance mode is overridden."
    yield from _kept_objects(rule)


def _kept_objects(rule: Rule) -> Iterator[str]:
    if n := rule.get("objects.keep_generations"):
        yield f"The newest {n:,} generations stay, told apart by {rule['objects.generation']}."
    if n := rule.get("objects.keep_last"):
        group = rule.get("objects.keep_last_group")
        yield f"The newest {n:,} objects" + (f" per group {group}" if group else "") + " stay."
    if pointer := rule.get("objects.current_pointer"):
        yield f"The generation that {pointer} names stays."
    if size := rule.get("objects.min_size"):
        yield f"Objects under {size:,} bytes stay."
    if (size := rule.get("objects.max_size")) is not None:
        yield f"Objects over {size:,} bytes stay."
    if classes := rule.get("objects.storage_class"):
        yield f"Only objects of the storage class {' or '.join(classes)} are removed."
    if tags := rule.get("objects.tags"):
        named = ", ".join(f"{name}={value}" for name, value in tags.items())
        yield f"Only objects with the tags {named} are removed."
    if names := rule.get("objects.lacks_tags"):
        yield f"Objects with one of the tags {', '.join(names)} stay."


def _row_sentences(rule: Rule) -> Iterator[str]:
    where = f" and where {rule['rows.where']}" if rule.get("rows.where") else ""
    into = rule.get("archive.table") or f"{rule.get('archive.bucket')}/{rule.get('archive.prefix')}"
    yield (
        f"Rows of {rule['rows.table']} in the database {rule['rows.database']} whose "
        f"{rule['rows.timestamp']} is older than {rule['older_than']}{where} are "
        + _fate(rule, into)
    )
    dependents = rule.get("rows.dependents")
    if dependents is None:
        yield "Rows of every table that refer to them are removed or changed with them."
    elif dependents:
        tables = ", ".join(dependents)
        yield f"Rows of {tables} that refer to them are removed or changed with them."
    else:
        yield "A row that a row of another table refers to stays."
    if said := _PARTITIONS.get(str(rule.get("rows.partitions"))):
        yield said


def _fate(rule: Rule, into: str) -> str:
    return f"moved to {into}." if rule["action"] == "archive" else "deleted."
