"""The XML documents that decide what is deleted and what counts as deleted.

Written and read here, as botocore takes about eight times as long for them and reads leniently.
An answer that is empty, cut off, of another kind or lacks a field raises ValueError: it must never
be read as "there are no objects" or "nothing failed".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from bestbefore.adapters.objects.s3.errors import Refusal
from bestbefore.domain.selection import STANDARD

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_LINE_ENDS = {"\r": "&#xD;", "\n": "&#xA;"}  # XML readers turn a bare CR into LF


class Listing(NamedTuple):
    """A ListObjectsV2 answer. Keys and prefixes are still as the store wrote them."""

    keys: Sequence[str]
    sizes: Sequence[int]
    etags: Sequence[str]
    times: Sequence[datetime]
    classes: Sequence[str]
    prefixes: Sequence[str]
    truncated: bool
    url_encoded: bool
    token: str | None


class VersionListing(NamedTuple):
    """A ListObjectVersions answer: one line of each list of *listing* per version or marker.

    In the document's order, which puts all versions before all markers on some stores. A marker
    has no size and an empty ETag.
    """

    listing: Listing
    ids: Sequence[str]
    markers: Sequence[bool]
    latest: Sequence[bool]
    next_key: str | None
    next_id: str | None


class VersionDeletion(NamedTuple):
    """A DeleteObjects answer about versions, by key and version id."""

    deleted: frozenset[tuple[str, str]]
    refused: dict[tuple[str, str], Refusal]


class Deletion(NamedTuple):
    """A DeleteObjects answer: what it names as deleted, and what it refuses.

    With each key that is deleted the version id of the marker that this left behind, empty if the
    answer does not give it; None if there is no marker, as there is none without versioning.
    """

    deleted: dict[str, str | None]
    refused: dict[str, Refusal]


def parse_listing(body: bytes) -> Listing:
    """Read a ListObjectsV2 answer. Raises ValueError."""
    root, namespace = _root(body, "ListBucketResult")
    truncated = _is_truncated(root, namespace)
    entry, key, size, etag, modified, storage = (
        namespace + name
        for name in ("Contents", "Key", "Size", "ETag", "LastModified", "StorageClass")
    )
    keys: list[str] = []
    sizes: list[int] = []
    etags: list[str] = []
    times: list[datetime] = []
    classes: list[str] = []
    try:
        for element in root.iter(entry):
            fields = {child.tag: child.text for child in element}
            keys.append(_text(fields[key]))
            sizes.append(int(_text(fields[size])))
            etags.append(_text(fields[etag]).strip('"'))
            times.append(_instant(_text(fields[modified])))
            classes.append(fields.get(storage) or STANDARD)
    except KeyError as missing:
        name = str(missing.args[0]).removeprefix(namespace)
        raise ValueError(f"the listing has an object without {name}") from missing
    return Listing(
        keys,
        sizes,
        etags,
        times,
        classes,
        _prefixes(root, namespace),
        truncated,
        root.findtext(namespace + "EncodingType") == "url",
        root.findtext(namespace + "NextContinuationToken"),
    )


def parse_versions(body: bytes) -> VersionListing:
    """Read a ListObjectVersions answer. Raises ValueError."""
    root, namespace = _root(body, "ListVersionsResult")
    truncated = _is_truncated(root, namespace)
    kinds = {namespace + "Version": False, namespace + "DeleteMarker": True}
    key, id_, latest, size, etag, modified, storage = (
        namespace + name
        for name in (
            "Key",
            "VersionId",
            "IsLatest",
            "Size",
            "ETag",
            "LastModified",
            "StorageClass",
        )
    )
    keys: list[str] = []
    sizes: list[int] = []
    etags: list[str] = []
    times: list[datetime] = []
    classes: list[str] = []
    ids: list[str] = []
    markers: list[bool] = []
    newest: list[bool] = []
    try:
        for element in root:
            marker = kinds.get(element.tag)
            if marker is None:
                continue
            fields = {child.tag: child.text for child in element}
            keys.append(_text(fields[key]))
            ids.append(_text(fields[id_]))
            newest.append(_text(fields[latest]) == "true")
            times.append(_instant(_text(fields[modified])))
            markers.append(marker)
            sizes.append(0 if marker else int(_text(fields[size])))
            etags.append("" if marker else _text(fields[etag]).strip('"'))
            classes.append(fields.get(storage) or STANDARD)
    except KeyError as missing:
        name = str(missing.args[0]).removeprefix(namespace)
        raise ValueError(f"the listing has an entry without {name}") from missing
    listing = Listing(
        keys,
        sizes,
        etags,
        times,
        classes,
        _prefixes(root, namespace),
        truncated,
        root.findtext(namespace + "EncodingType") == "url",
        None,
    )
    return VersionListing(
        listing,
        ids,
        markers,
        newest,
        root.findtext(namespace + "NextKeyMarker"),
        root.findtext(namespace + "NextVersionIdMarker"),
    )


def parse_version_deletion(body: bytes) -> VersionDeletion:
    """Read a DeleteObjects answer about versions. Raises ValueError.

    Of a marker that was removed some stores give the id only as ``DeleteMarkerVersionId``.
    """
    root, namespace = _root(body, "DeleteResult")
    key, version, marker = (
        namespace + name for name in ("Key", "VersionId", "DeleteMarkerVersionId")
    )
    deleted = frozenset(
        (fields.get(key) or "", fields.get(version) or fields.get(marker) or "")
        for fields in _each(root, namespace + "Deleted")
    )
    refused = {
        (fields.get(key) or "", fields.get(version) or ""): _refusal(fields, namespace)
        for fields in _each(root, namespace + "Error")
    }
    return VersionDeletion(deleted, refused)


def parse_deletion(body: bytes) -> Deletion:
    """Read a DeleteObjects answer. Raises ValueError."""
    root, namespace = _root(body, "DeleteResult")
    key = namespace + "Key"
    deleted = {
        fields.get(key) or "": _marker(fields, namespace)
        for fields in _each(root, namespace + "Deleted")
    }
    refused = {
        fields.get(key) or "": _refusal(fields, namespace)
        for fields in _each(root, namespace + "Error")
    }
    return Deletion(deleted, refused)


def _marker(fields: Mapping[str, str | None], namespace: str) -> str | None:
    """See `Deletion`. A version id alone tells of a marker too, unless the answer denies it."""
    version = fields.get(namespace + "DeleteMarkerVersionId") or ""
    said = fields.get(namespace + "DeleteMarker")
    marked = bool(version) if said is None else said.strip().lower() == "true"
    return version if marked else None


def deletion(objects: Iterable[tuple[str, str | None]]) -> bytes:
    """A DeleteObjects request for keys, each with the ETag it must still have, or None.

    In verbose mode, as a quiet answer says the same for a thousand successes as for nothing.
    """
    return _deletion(
        f"<Key>{escape(key, _LINE_ENDS)}</Key>"
        if etag is None
        else f"<Key>{escape(key, _LINE_ENDS)}</Key><ETag>&quot;{escape(etag)}&quot;</ETag>"
        for key, etag in objects
    )


def version_deletion(entries: Iterable[tuple[str, str]]) -> bytes:
    """A DeleteObjects request for keys, each with the id of the one entry that is meant."""
    return _deletion(
        f"<Key>{escape(key, _LINE_ENDS)}</Key><VersionId>{escape(version, _LINE_ENDS)}</VersionId>"
        for key, version in entries
    )


def _deletion(objects: Iterable[str]) -> bytes:
    entries = "".join(f"<Object>{entry}</Object>" for entry in objects)
    return f'<Delete xmlns="{_NAMESPACE}">{entries}</Delete>'.encode()


def carries(text: str) -> bool:
    """Whether XML 1.0 can carry *text* (its section 2.2 says which characters it can)."""
    return text.isprintable() or all(_is_xml_character(ord(character)) for character in text)


def _is_xml_character(code: int) -> bool:
    return (
        0x20 <= code <= 0xD7FF
        or code in {0x9, 0xA, 0xD}
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )


def _root(body: bytes, name: str) -> tuple[Element, str]:
    """The document's root element, which has to be a *name*, and its namespace in braces."""
    if not body:
        raise ValueError("the answer is empty")
    try:
        root = ET.fromstring(body)  # noqa: S314 expat >= 2.4.1 bounds entity expansion
    except ET.ParseError as error:
        raise ValueError(f"the answer is not well-formed XML ({error})") from error
    namespace, _, tag = root.tag.rpartition("}")
    if tag == "Error":
        said = " ".join(child.text or "" for child in root if child.tag.endswith("Code"))
        raise ValueError(f"a success that holds an error: {said or 'without a code'}")
    if tag != name:
        raise ValueError(f"the answer is a {tag}, not a {name}")
    return root, f"{namespace}}}" if namespace else ""


def _is_truncated(root: Element, namespace: str) -> bool:
    said = root.findtext(namespace + "IsTruncated")
    if said not in {"true", "false"}:
        raise ValueError("the listing does not say whether it is complete")
    return said == "true"


def _each(root: Element, tag: str) -> Iterator[Mapping[str, str | None]]:
    """The texts in each *tag* below *root*, by tag."""
    for element in root.iterfind(tag):
        yield {child.tag: child.text for child in element}


def _refusal(fields: Mapping[str, str | None], namespace: str) -> Refusal:
    return Refusal(fields.get(namespace + "Code") or "", fields.get(namespace + "Message") or "")


def _prefixes(root: Element, namespace: str) -> Sequence[str]:
    return [
        _text(element.findtext(namespace + "Prefix"))
        for element in root.iterfind(namespace + "CommonPrefixes")
    ]


def _text(value: str | None) -> str:
    """An element's text. A key of blanks only is a key; an element without text is an error."""
    if not value:
        raise ValueError("the listing has an object with an empty field")
    return value


@lru_cache(maxsize=65_536)
def _instant(text: str) -> datetime:
    """*text* as an aware datetime. Cached, as a page's objects tend to share their seconds."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    return moment.astimezone(UTC)
