"""Reading and writing S3's documents: strict, exact, and never taking nothing for an answer."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.adapters.objects.s3.wire import (
    carries,
    deletion,
    parse_deletion,
    parse_listing,
    parse_version_deletion,
    parse_versions,
    version_deletion,
)

LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true</IsTruncated>
<EncodingType>url</EncodingType><NextContinuationToken>t</NextContinuationToken>
<Contents><Key>a%2Bb</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>&quot;e&quot;</ETag><Size>3</Size></Contents>
<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>"""

VERSIONS = b"""<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>true</IsTruncated><EncodingType>url</EncodingType><NextKeyMarker>a%2Bb</NextKeyMarker>
<NextVersionIdMarker>1</NextVersionIdMarker>
<DeleteMarker><Key>a%2Bb</Key><VersionId>2</VersionId><IsLatest>true</IsLatest>
<LastModified>2026-01-02T00:00:00.000Z</LastModified></DeleteMarker>
<Version><Key>a%2Bb</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>
<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size>
</Version></ListVersionsResult>"""

REMOVED = b"""<DeleteResult><Deleted><Key>a</Key><VersionId>1</VersionId></Deleted>
<Deleted><Key>a</Key><DeleteMarker>true</DeleteMarker>
<DeleteMarkerVersionId>2</DeleteMarkerVersionId></Deleted><Deleted><Key>b</Key></Deleted>
<Error><Key>a</Key><VersionId>3</VersionId><Code>AccessDenied</Code></Error></DeleteResult>"""

RESULT = b"""<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key>
<Code>AccessDenied</Code><Message>no</Message></Error><Error><Key>c</Key></Error></DeleteResult>"""


def test_a_listing_is_read_in_full():
    listing = parse_listing(LISTING)
    assert listing.keys == ["a%2Bb"]
    assert listing.sizes == [3]
    assert listing.etags == ["e"]
    assert listing.times == [datetime(2026, 1, 1, tzinfo=UTC)]
    assert listing.prefixes == ["p/"]
    assert (listing.truncated, listing.url_encoded, listing.token) == (True, True, "t")


@pytest.mark.parametrize(
    ("said", "storage_class"),
    [
        (b"", "STANDARD"),
        (b"<StorageClass/>", "STANDARD"),
        (b"<StorageClass>DEEP_ARCHIVE</StorageClass>", "DEEP_ARCHIVE"),
    ],
)
def test_an_object_without_a_storage_class_is_of_the_standard_one(said, storage_class):
    body = LISTING.replace(b"</Contents>", said + b"</Contents>")
    assert parse_listing(body).classes == [storage_class]


@pytest.mark.parametrize("namespace", [b"", b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
def test_a_listing_without_a_namespace_says_the_same(namespace):
    listing = LISTING.replace(b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', namespace)
    assert parse_listing(listing) == parse_listing(LISTING)


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (parse_listing, LISTING),
        (parse_deletion, RESULT),
        (parse_versions, VERSIONS),
        (parse_version_deletion, REMOVED),
    ],
)
def test_an_answer_cut_off_anywhere_is_an_error(parse, body):
    for length in range(len(body)):
        with pytest.raises(ValueError, match=r"empty|not well-formed"):
            parse(body[:length])


@pytest.mark.parametrize("field", [b"Key", b"LastModified", b"ETag", b"Size"])
def test_an_object_without_a_field_is_an_error(field):
    start, end = LISTING.index(b"<" + field + b">"), LISTING.index(b"</" + field + b">")
    without = LISTING[:start] + LISTING[end + len(field) + 3 :]
    with pytest.raises(ValueError, match=f"without {field.decode()}"):
        parse_listing(without)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b"<IsTruncated>true</IsTruncated>", b""),
        (b"<Size>3</Size>", b"<Size>three</Size>"),
        (b"<Size>3</Size>", b"<Size/>"),
        (b"2026-01-01T00:00:00.000Z", b"2026-01-01T00:00:00"),
        (b"2026-01-01T00:00:00.000Z", b"yesterday"),
    ],
)
def test_a_listing_that_cannot_be_believed_is_an_error(was, becomes):
    with pytest.raises(ValueError, match=r".+"):
        parse_listing(LISTING.replace(was, becomes))


@pytest.mark.parametrize("parse", [parse_listing, parse_deletion])
@pytest.mark.parametrize(
    "body", [b"<Error><Code>InternalError</Code></Error>", b"<html></html>", b"{}", b""]
)
def test_another_document_is_an_error(parse, body):
    with pytest.raises(ValueError, match=r"InternalError|html|well-formed|empty"):
        parse(body)


def test_a_delete_result_tells_deleted_from_refused_even_without_a_code():
    answer = parse_deletion(RESULT)
    assert answer.deleted == {"a": None}
    assert {key: said.code for key, said in answer.refused.items()} == {
        "b": "AccessDenied",
        "c": "",
    }


@given(st.lists(st.text(min_size=1).filter(carries), unique=True))
def test_every_key_xml_can_carry_survives_the_request(keys):
    root = ET.fromstring(deletion((key, "etag") for key in keys))  # noqa: S314
    assert [element.text for element in root.findall("{*}Object/{*}Key")] == keys
    assert [element.text for element in root.findall("{*}Object/{*}ETag")] == ['"etag"'] * len(keys)
    assert root.find("{*}Quiet") is None


@given(st.text(min_size=1))
def test_carries_is_what_an_xml_parser_accepts(text):
    try:
        ET.fromstring(deletion([(text, None)]))  # noqa: S314
    except ET.ParseError:
        accepted = False
    else:
        accepted = True
    # expat lets U+FFFE and U+FFFF pass; XML 1.0, and with it stricter servers, does not.
    assert carries(text) == (accepted and not {"\ufffe", "\uffff"} & set(text))


@pytest.mark.parametrize(
    ("said", "marker"),
    [
        ("", None),
        ("<DeleteMarker>true</DeleteMarker>", ""),
        ("<DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>v</DeleteMarkerVersionId>", "v"),
        ("<DeleteMarkerVersionId>null</DeleteMarkerVersionId>", "null"),
        ("<DeleteMarkerVersionId/>", None),
        ("<DeleteMarker>false</DeleteMarker>", None),
        (
            "<DeleteMarker>false</DeleteMarker><DeleteMarkerVersionId>v</DeleteMarkerVersionId>",
            None,
        ),
    ],
)
def test_a_delete_result_tells_a_marker_from_a_deletion(said, marker):
    body = f"<DeleteResult><Deleted><Key>a</Key>{said}</Deleted></DeleteResult>"
    assert parse_deletion(body.encode()).deleted == {"a": marker}


def test_versions_and_markers_are_read_in_the_order_of_the_document():
    found = parse_versions(VERSIONS)
    listing = found.listing
    assert listing.keys == ["a%2Bb", "a%2Bb"]
    assert (listing.sizes, listing.etags) == ([0, 3], ["", "e"])
    assert listing.times == [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]
    assert (found.ids, found.markers, found.latest) == (["2", "1"], [True, False], [True, False])
    assert (found.next_key, found.next_id) == ("a%2Bb", "1")
    assert (listing.truncated, listing.url_encoded) == (True, True)


@pytest.mark.parametrize("field", ["Key", "VersionId", "IsLatest", "LastModified"])
def test_an_entry_without_a_field_is_an_error(field):
    body = VERSIONS.replace(field.encode() + b">", b"Other>")
    with pytest.raises(ValueError, match=r"entry without|empty field"):
        parse_versions(body)


def test_removals_are_told_apart_by_key_and_version():
    found = parse_version_deletion(REMOVED)
    assert found.deleted == {("a", "1"), ("a", "2"), ("b", "")}
    assert {name: said.code for name, said in found.refused.items()} == {("a", "3"): "AccessDenied"}


def test_a_removal_names_each_version_and_carries_no_condition():
    body = version_deletion([("a<&>\n", "1"), ("a<&>\n", "2&")])
    root = ET.fromstring(body)  # noqa: S314
    objects = root.findall("{*}Object")
    assert [o.findtext("{*}Key") for o in objects] == ["a<&>\n"] * 2
    assert [o.findtext("{*}VersionId") for o in objects] == ["1", "2&"]
    assert root.find(".//{*}ETag") is None
    assert root.find("{*}Quiet") is None
