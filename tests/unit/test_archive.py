"""Policies that archive: their configuration, and the keys that copies get."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bestbefore.app.settings import ConfigError
from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Budget
from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.retention import Age
from bestbefore.domain.selection import MAX_KEY_BYTES, Selector, Verdict
from bestbefore.ports.ledger import Operation
from bestbefore.stages.work import longest_hold
from support.settings import Read
from support.worlds import NOW, listed

GOOD = """
[stores.exports]
kind = "s3"
endpoint_url = "http://127.0.0.1:8333"
[stores.cold]
kind = "s3"
endpoint_url = "http://127.0.0.1:8333/"
region = "eu-central-1"
[policies.weekly]
version = "v1"
older_than = "30d"
action = "archive"
[policies.weekly.objects]
store = "exports"
bucket = "digests"
prefix = "exports/"
[policies.weekly.archive]
store = "cold"
bucket = "archive"
prefix = "digests/"
"""


def test_an_archive_is_a_store_a_bucket_and_a_prefix(read: Read) -> None:
    policy = read(GOOD).policies["weekly"]
    assert policy.action == "archive"
    assert policy.archive == Archive("cold", "archive", "digests/")


def test_an_archive_without_a_prefix_is_the_whole_of_its_bucket(read: Read) -> None:
    archive = read(GOOD.replace('prefix = "digests/"\n', "")).policies["weekly"].archive
    assert archive == Archive("cold", "archive", "")


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        ('action = "archive"\n', "", "archive", "of no use without"),
        ('action = "archive"', 'action = "delete"', "archive", "of no use without"),
        ("[policies.weekly.archive]", "[policies.x.archive]", "archive", "expected this section"),
        ('store = "cold"', 'store = "clod"', "archive.store", 'no store "clod"'),
        ('prefix = "digests/"', 'prefix = "digests"', "archive.prefix", 'ends in "/"'),
        ('prefix = "digests/"', f'prefix = "{"d" * 501}/"', "archive.prefix", "at most 500 bytes"),
        ('bucket = "archive"', 'bucket = "s3://archive"', "archive.bucket", "name of a bucket"),
        (
            'endpoint_url = "http://127.0.0.1:8333/"',
            'endpoint_url_env = "OTHER"',
            "archive.store",
            "server-side copy needs one endpoint: exports is at http://127.0.0.1:8333, cold at "
            "http://127.0.0.1:9000",
        ),
        (
            'endpoint_url = "http://127.0.0.1:8333/"\n',
            "",
            "archive.store",
            "cold at AWS",
        ),
    ],
)
def test_what_cannot_be_archived_to_is_refused(
    read: Read, before: str, after: str, place: str, message: str
) -> None:
    assert before in GOOD
    with pytest.raises(ConfigError) as refused:
        read(GOOD.replace(before, after), {"OTHER": "http://127.0.0.1:9000"})
    places = {".".join(p.place): p for p in refused.value.problems}
    problem = places[f"policies.weekly.{place}"]
    assert message in problem.message
    assert problem.remedy


def test_files_are_not_archived(read: Read) -> None:
    before, _, rest = GOOD.partition("[stores.cold]")
    files = '[stores.exports]\nkind = "directory"\nroot = "/srv"\n'
    assert before.startswith("\n[stores.exports]")
    with pytest.raises(ConfigError, match="only a store of kind s3 makes copies"):
        read(f"{files}[stores.cold]{rest}")


@pytest.mark.parametrize("prefix", ["exports/", "exports/old/", ""])
def test_a_policy_may_not_archive_into_what_it_selects_from(read: Read, prefix: str) -> None:
    text = GOOD.replace('bucket = "archive"', 'bucket = "digests"')
    with pytest.raises(ConfigError, match="it would archive its archive"):
        read(text.replace('prefix = "digests/"', f'prefix = "{prefix}"'))


def test_a_whole_bucket_may_not_archive_into_itself(read: Read) -> None:
    text = GOOD.replace('bucket = "archive"', 'bucket = "digests"')
    with pytest.raises(ConfigError, match="it would archive its archive"):
        read(text.replace('prefix = "exports/"', "whole_bucket = true"))


def test_an_archive_beside_the_originals_is_fine(read: Read) -> None:
    archive = read(GOOD.replace('bucket = "archive"', 'bucket = "digests"'))
    assert archive.policies["weekly"].archive == Archive("cold", "digests", "digests/")


def test_the_key_of_a_copy_is_that_of_the_design() -> None:
    operation = bytes.fromhex("9783c7f13d5e634d7642896032b3915dbf0471bcd0c08c4637a40108858c7fae")
    archive = Archive("cold", "archive", "digests/")
    key = "exports/2026-06/customer-1842.json"
    assert archive.key(operation, key) == f"digests/9783c7f13d5e/{key}"
    assert archive.added_bytes == len("digests/9783c7f13d5e/")


POLICY = Policy("p", "v1", "", Age(0, 86_400), ObjectSource("s", "b", "exports/"))


def test_where_archived_objects_go_is_part_of_a_version_and_changes_no_other_policy() -> None:
    archiving = replace(POLICY, action="archive", archive=Archive("cold", "archive", "a/"))
    elsewhere = replace(archiving, archive=Archive("cold", "archive", "b/"))
    prints = {policy.fingerprint() for policy in (POLICY, archiving, elsewhere)}
    assert len(prints) == 3
    said = {key for key, value in POLICY.decides().items() if value is not None}
    assert not any(key.startswith("archive.") for key in said)


@pytest.mark.parametrize("letter", ["k", "ö"])
def test_a_key_is_refused_once_its_copys_key_would_be_too_long(letter: str) -> None:
    archive = Archive("cold", "archive", "ä/")
    room = MAX_KEY_BYTES - archive.added_bytes - len("exports/")
    selector = Selector.of(POLICY.objects, NOW, NOW, archive.added_bytes)
    fits = (
        "exports/" + "k" * (room % len(letter.encode())) + letter * (room // len(letter.encode()))
    )
    assert selector.judge(listed(fits)) is Verdict.ELIGIBLE
    assert selector.judge(listed(fits + "k")) is Verdict.REFUSED
    assert Selector.of(POLICY.objects, NOW, NOW).judge(listed(fits + "k")) is Verdict.ELIGIBLE


@pytest.mark.parametrize(
    "line", ['tags = { a = "b" }', 'lacks_tags = ["keep"]', 'storage_class = "GLACIER"']
)
def test_uploads_are_not_told_apart_by_what_they_do_not_have(read: Read, line: str) -> None:
    text = GOOD.replace('prefix = "exports/"', f'prefix = "exports/"\n{line}')
    read(text)
    with pytest.raises(ConfigError, match="uploads cannot be told apart by"):
        read(text.replace(line, f"{line}\nabort_incomplete_uploads = true"))


def test_a_batch_that_copies_may_take_as_long_as_its_bytes_need() -> None:
    archiving = replace(POLICY, action="archive", archive=Archive("cold", "archive", "a/"))
    budget = Budget.fresh()
    large = Operation(1, b"", 1, 1, "k", "e", NOW, 5 * 10**12, NOW, 1, budget, False, 1, False)
    assert longest_hold(POLICY, [large]) == longest_hold(archiving, []) == timedelta(minutes=15)
    assert longest_hold(archiving, [large]) > timedelta(days=11)
