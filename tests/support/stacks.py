"""The fault server with a bucket that keeps versions, and a memory of what came back to life.

with VersionedS3() as s3:
    s3.put("exports", "a.json", b"1")               # a version, as old as wanted
    s3.hide("exports", "a.json")                    # a delete marker over it
    assert s3.entries("exports") == {("a.json", "1"), ("a.json", "2")}
    assert s3.resurrected == []                     # at any moment so far
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from support.faults import OLD, Answer, FaultyS3, Request, Stored, _document, _xml, error


class Stacked(NamedTuple):
    """One entry: a version, or with nothing stored a delete marker."""

    id: str
    stored: Stored | None
    modified: datetime


@dataclass(frozen=True)
class Lock:
    """What keeps a version: a retention with its mode, a legal hold, or both."""

    until: datetime | None = None
    mode: str = "COMPLIANCE"
    legal: bool = False


@dataclass
class VersionedS3(FaultyS3):
    """`FaultyS3` whose buckets keep versions."""

    versioning: str | None = "Enabled"

    apart: bool = False
    """Show all versions of a page before all of its markers, as SeaweedFS and moto do."""

    stacks: dict[tuple[str, str], list[Stacked]] = field(default_factory=dict)
    locks: dict[tuple[str, str, str], Lock] = field(default_factory=dict)
    resurrected: list[str] = field(default_factory=list)
    """Keys under which a removal made readers see another version than before."""

    removals: list[tuple[str, str]] = field(default_factory=list)
    """Key and id of every removal that was asked for, denied ones too, in order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ids = itertools.count(1)

    def put(self, bucket: str, key: str, body: bytes = b"x", modified: datetime = OLD) -> Stored:
        stored = super().put(bucket, key, body, modified)
        self._push(bucket, key, stored, modified)
        return stored

    def hide(self, bucket: str, key: str, modified: datetime = OLD) -> str:
        """Put a delete marker over *key*, as old as wanted; returns its id."""
        return self._push(bucket, key, None, modified)

    def lock(self, bucket: str, key: str, id_: str, lock: Lock | None) -> None:
        """Lock a version, or unlock it."""
        with self._lock:
            self.locks.pop((bucket, key, id_), None)
            if lock is not None:
                self.locks[bucket, key, id_] = lock

    def newest(self, bucket: str, key: str) -> str:
        """The id of the newest entry of *key*."""
        return self.stacks[bucket, key][0].id

    def entries(self, bucket: str) -> set[tuple[str, str]]:
        """Key and id of everything the bucket holds."""
        with self._lock:
            return {
                (key, entry.id)
                for (of, key), stack in self.stacks.items()
                for entry in stack
                if of == bucket
            }

    def _push(self, bucket: str, key: str, stored: Stored | None, modified: datetime) -> str:
        with self._lock:
            self.buckets.add(bucket)
            stack = self.stacks.setdefault((bucket, key), [])
            id_ = str(next(self._ids))
            if self.versioning != "Enabled":
                id_ = "null"
                stack[:] = [entry for entry in stack if entry.id != id_]
            stack.insert(0, Stacked(id_, stored, modified))
            self._show(bucket, key)
            return id_

    def _show(self, bucket: str, key: str) -> None:
        """Let readers see what is the newest of *key* now."""
        stack = self.stacks.get((bucket, key), [])
        if not stack:
            self.stacks.pop((bucket, key), None)
        if stack and stack[0].stored is not None:
            self.objects[bucket, key] = stack[0].stored
        else:
            self.objects.pop((bucket, key), None)

    def _carry_out(self, request: Request) -> Answer:
        if request.bucket in self.buckets and request.operation == "ListObjectVersions":
            return self._list_versions(request)
        return super()._carry_out(request)

    def _delete_one(self, call: str, bucket: str, key: str, etag: str | None) -> str | None:
        code = super()._delete_one(call, bucket, key, etag)
        if code is None:
            self._marked = self._push(bucket, key, None, self.date())
        return code

    def _mark(self, key: str) -> str | None:
        return self._marked

    def _delete(self, request: Request) -> Answer:
        id_ = request.query.get("versionId")
        if id_ is None:
            return super()._delete(request)
        code = self._remove(request, request.key, id_)
        return Answer(204) if code is None else error(403, code)

    def _delete_many(self, request: Request) -> Answer:
        entries = ET.fromstring(request.body).findall("{*}Object")  # noqa: S314
        if all(entry.find("{*}VersionId") is None for entry in entries):
            return super()._delete_many(request)
        said = []
        for entry in entries:
            key, id_ = entry.findtext("{*}Key") or "", entry.findtext("{*}VersionId") or ""
            assert entry.find("{*}ETag") is None, "AWS refuses a condition beside a version id"
            code = self._remove(request, key, id_)
            name = f"<Key>{_xml(key)}</Key><VersionId>{id_}</VersionId>"
            if code is not None:
                said.append(f"<Error>{name}<Code>{code}</Code></Error>")
            elif key not in self.hidden:
                said.append(f"<Deleted>{name}</Deleted>")
        return _document("DeleteResult", "".join(said))

    def _remove(self, request: Request, key: str, id_: str) -> str | None:
        """Remove one entry; the error's code, or None. Absence is a success."""
        if "if-match" in request.headers:
            return "NotImplemented"
        if ".bestbefore-probe-" in key:
            return self._gone(request.bucket, key, id_)
        self.removals.append((key, id_))
        code, times = self._refusals.get(key, ("", 0))
        if times:
            self._refusals[key] = (code, times - 1)
            return code
        if any(key.startswith(prefix) for prefix in self.denied):
            return "AccessDenied"
        lock = self.locks.get((request.bucket, key, id_))
        bypass = request.headers.get("x-amz-bypass-governance-retention") == "true"
        if lock is not None and self._holds(lock, bypass=bypass):
            return "AccessDenied"
        return self._gone(request.bucket, key, id_)

    def _gone(self, bucket: str, key: str, id_: str) -> None:
        """Remove one entry, and notice what readers see instead."""
        before = self.objects.get((bucket, key))
        stack = self.stacks.get((bucket, key), [])
        stack[:] = [entry for entry in stack if entry.id != id_]
        self._show(bucket, key)
        after = self.objects.get((bucket, key))
        if after is not None and after is not before:
            self.resurrected.append(key)

    def _holds(self, lock: Lock, *, bypass: bool) -> bool:
        if lock.legal:
            return True
        governed = lock.mode == "GOVERNANCE" and bypass
        return lock.until is not None and lock.until > self.date() and not governed

    def _head(self, request: Request) -> Answer:
        id_ = request.query.get("versionId")
        if id_ is None:
            return super()._head(request)
        stack = self.stacks.get((request.bucket, request.key), [])
        entry = next((entry for entry in stack if entry.id == id_), None)
        if entry is None:
            return Answer(404)
        if entry.stored is None:
            return Answer(405, headers={"x-amz-delete-marker": "true", "Allow": "DELETE"})
        headers = {
            "ETag": f'"{entry.stored.etag}"',
            "Last-Modified": format_datetime(entry.modified, usegmt=True),
            "Content-Length": str(len(entry.stored.body)),
        }
        lock = self.locks.get((request.bucket, request.key, id_))
        if lock is not None:
            headers["x-amz-object-lock-legal-hold"] = "ON" if lock.legal else "OFF"
            if lock.until is not None:
                until = f"{lock.until:%Y-%m-%dT%H:%M:%S}.000Z"
                headers |= {"x-amz-object-lock-mode": lock.mode,
                            "x-amz-object-lock-retain-until-date": until}  # fmt: skip
        return Answer(200, b"", headers)

    def _list_versions(self, request: Request) -> Answer:
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after, behind = query.get("key-marker", ""), query.get("version-id-marker", "")
        most = min(int(query.get("max-keys", 1_000)), self.page_size, 1_000)
        encoded = query.get("encoding-type") == "url"
        encode = self._encode if encoded else str
        shown: list[tuple[bool, str]] = []
        folders: list[str] = []
        last = ("", "")
        truncated = False
        for key, place, entry in self._stacked(request.bucket, prefix, after, behind):
            folder = key[: key.index(delimiter, len(prefix)) + 1] if (
                delimiter and delimiter in key[len(prefix) :]) else None  # fmt: skip
            if folder is not None and folder in folders:
                continue
            if len(shown) + len(folders) == most:
                truncated = True
                break
            last = (key, entry.id)
            if folder is not None:
                folders.append(folder)
            else:
                shown.append((entry.stored is None, self._shown(key, place, entry, encode(key))))
        if self.apart:
            shown.sort(key=lambda one: one[0])
        marks = (
            f"<NextKeyMarker>{_xml(encode(last[0]))}</NextKeyMarker>"
            f"<NextVersionIdMarker>{last[1]}</NextVersionIdMarker>"
        )
        return _document(
            "ListVersionsResult",
            f"<IsTruncated>{str(truncated).lower()}</IsTruncated>",
            "<EncodingType>url</EncodingType>" if encoded else "",
            marks if truncated else "",
            *(text for _, text in shown),
            *(
                f"<CommonPrefixes><Prefix>{_xml(encode(folder))}</Prefix></CommonPrefixes>"
                for folder in folders
            ),
        )

    def _stacked(
        self, bucket: str, prefix: str, after: str, behind: str
    ) -> Iterator[tuple[str, int, Stacked]]:
        for key in sorted(key for of, key in self.stacks if of == bucket):
            if not key.startswith(prefix) or key < after or (key == after and not behind):
                continue
            stack = self.stacks[bucket, key]
            start = 0
            if key == after:
                # A marker that is gone still tells where it stood, as ids only grow here.
                start = next((n for n, e in enumerate(stack) if _rank(e.id) < _rank(behind)),
                             len(stack))  # fmt: skip
            for place in range(start, len(stack)):
                yield key, place, stack[place]

    def _shown(self, key: str, place: int, entry: Stacked, name: str) -> str:
        modified = f"{entry.modified:%Y-%m-%dT%H:%M:%S}.000Z"
        said = (
            f"<Key>{_xml(name)}</Key><VersionId>{entry.id}</VersionId>"
            f"<IsLatest>{str(place == 0).lower()}</IsLatest><LastModified>{modified}</LastModified>"
        )
        if entry.stored is None:
            return f"<DeleteMarker>{said}</DeleteMarker>"
        said += f"<ETag>&quot;{entry.stored.etag}&quot;</ETag><Size>{len(entry.stored.body)}</Size>"
        return f"<Version>{said}</Version>"


def _rank(id_: str) -> int:
    return 0 if id_ == "null" else int(id_)


@pytest.fixture
def stacked() -> Iterator[VersionedS3]:
    with VersionedS3() as server:
        yield server
