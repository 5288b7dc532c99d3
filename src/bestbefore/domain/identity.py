"""Names for targets that no two different targets can share."""

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

from bestbefore.domain.versions import NULL


def frame(part: str) -> str:
    """One netstring-like part: its length in UTF-8 bytes, a colon, itself, a comma.

    Object keys may hold any separator, so joining with one would let two targets collide.
    """
    return f"{len(part.encode())}:{part},"


def operation_id(*parts: str) -> str:
    """Hex SHA-256 of the framed *parts* (64 characters)."""
    return sha256("".join(map(frame, parts)).encode()).hexdigest()


@lru_cache(maxsize=4096)  # objects come in bursts, and this is a third of an operation id's cost
def instant(moment: datetime) -> str:
    """*moment* (aware) as ``YYYY-MM-DDTHH:MM:SSZ``; fractions are cut, never rounded."""
    return moment.astimezone(UTC).isoformat()[:19] + "Z"


def exact_instant(moment: datetime) -> str:
    """*moment* (aware) as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def object_identity(etag: str, last_modified: datetime, version: str | None = None) -> str:
    """What tells two objects under one key apart: the id of the *version*, if it has one.

    A re-created key gets another identity and so another operation. The version ``null`` is no
    version id, as it can be overwritten.
    """
    if version is None or version == NULL:
        return f"{etag}@{instant(last_modified)}"
    return version


def upload_operation(policy: str, version: str, bucket: str, key: str, upload_id: str) -> str:
    """The operation id of an unfinished upload, hex."""
    return operation_id("upload", policy, version, bucket, key, upload_id)


def row_operation(
    policy: str, version: str, table: str, cutoff: datetime, first: str, last: str
) -> str:
    """The operation id of a row batch between *first* and *last*, hex."""
    return operation_id("rows", policy, version, table, exact_instant(cutoff), first, last)


class ObjectIds:
    """Operation ids for the objects of one (policy, version, bucket), 32 bytes each.

    Hashes what all of them share once, which matters at a million keys.
    """

    def __init__(self, policy: str, version: str, bucket: str) -> None:
        shared = "".join(map(frame, ("object", policy, version, bucket)))
        self._shared = sha256(shared.encode())

    def of(self, key: str, etag: str, last_modified: datetime, version: str | None = None) -> bytes:
        """The id of the object *key* as it was seen with *etag* at *last_modified*, or of the
        *version* of it."""
        digest = self._shared.copy()
        identity = object_identity(etag, last_modified, version).encode()
        name = key.encode()
        digest.update(b"%d:%b,%d:%b," % (len(name), name, len(identity), identity))
        return digest.digest()
