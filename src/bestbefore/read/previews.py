"""Documents about what a run would remove, in the shapes of `read.documents`."""

import json
from collections.abc import Iterable

from bestbefore.domain.prefixes import Under
from bestbefore.domain.preview import Preview, Selected, Stay
from bestbefore.read.documents import Document, when


def would_document(preview: Preview) -> Document:
    """What a run would remove, and why the rest stays.

    ``n`` counts objects or rows; of rows ``bytes`` is None. An entry of ``prefixes`` counts what is
    under its prefix and under no longer one of the list; the last one, with None as ``prefix``,
    counts all others. ``first_batch`` holds both ends of the first row batch, each a list of texts.
    """
    first = preview.first
    return {
        "n": preview.n,
        "bytes": preview.size,
        "oldest": when(preview.oldest),
        "newest": when(preview.newest),
        "prefixes": _prefixes(preview.prefixes),
        "stays": [_stay(stay) for stay in preview.stays],
        "sample": [target_document(target) | {"why": why} for why, target in preview.sample],
        "first_batch": [] if first is None else [json.loads(first.first), json.loads(first.last)],
        "statement": preview.statement,
        "triggers": list(preview.triggers),
    }


def target_document(target: Selected) -> Document:
    """One object, version, unfinished upload or row batch that a run selects."""
    batch = target.batch
    if batch is None:
        return {
            "kind": "object",
            "key": target.key,
            "size": target.size,
            "last_modified": when(target.last_modified),
            "version_id": target.version_id,
            "upload_id": target.upload_id,
        }
    return {
        "kind": "rows",
        "first": json.loads(batch.first),
        "last": json.loads(batch.last),
        "rows": batch.rows,
        "oldest": when(batch.oldest),
        "dependents": [dependents._asdict() for dependents in batch.dependents],
    }


def _stay(stay: Stay) -> Document:
    return {
        "reason": stay.reason,
        "n": stay.n,
        "prefixes": _prefixes(stay.prefixes),
        "tables": [{"table": table, "n": n} for table, n in stay.tables],
    }


def _prefixes(found: Iterable[Under]) -> list[Document]:
    return [{"prefix": one.prefix, "n": one.n, "bytes": one.size} for one in found]
