"""A store's habits on the command line: `check` shows them, the next process knows them."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.adapters.objects.s3.client import plain_client
from support.cli import Cli, fill
from support.docs import commands
from support.faults import FaultyS3, error
from support.forks import Forks
from support.moto import Moto


def sent(faulty: FaultyS3) -> Counter[str]:
    """How often each operation was asked for since the last time."""
    found = Counter(request.operation for request in faulty.requests)
    faulty.requests.clear()
    return found


def findings(cli: Cli) -> dict[str, str]:
    return {one["code"]: one["message"] for one in cli.json("check")["findings"]}


def test_what_the_page_says_to_type_tells_of_every_habit(cli: Cli, faulty: FaultyS3) -> None:
    text, document = commands("compatibility.md")

    shown = cli(*text)
    found = {one["code"]: one["message"] for one in cli(*document).json["findings"]}

    for code in ("conditions-honoured", "store-looks-like", "batch-limit", "content-md5",
                 "listing-encoding"):  # fmt: skip
        assert code in found
        assert code in shown.out
    assert "multi-delete-missing" not in found


def test_the_second_process_does_not_begin_with_what_the_first_was_refused(
    cli: Cli, faulty: FaultyS3
) -> None:
    faulty.multi_delete = error(501, "NotImplemented")
    faulty.url_encoding = False
    fill(faulty, 30)
    cli("run", "exports")
    first = sent(faulty)
    assert first["DeleteObjects"] == 2
    fill(faulty, 30, prefix="exports/more-")
    cli.new_slot()

    cli("run", "exports")

    second = sent(faulty)
    assert second["DeleteObjects"] == 0
    assert second["DeleteObject"] == first["DeleteObject"] == 30 + 2
    assert second["ListObjectsV2"] < first["ListObjectsV2"]
    assert faulty.keys("exports") == set()
    found = findings(cli)
    assert "each object gets a DELETE of its own; learnt 20" in found["multi-delete-missing"]
    assert "cannot be url-encoded here; learnt 20" in found["listing-encoding"]


def test_small_requests_and_content_md5_are_learnt_once(cli: Cli, faulty: FaultyS3) -> None:
    faulty.most_keys, faulty.wants_md5 = 50, "MissingContentMD5"
    fill(faulty, 400)
    cli("run", "exports")
    fill(faulty, 400, prefix="exports/more-")
    cli.new_slot()
    faulty.requests.clear()

    cli("run", "exports")

    sizes = [len(request.keys) for request in faulty.asked("DeleteObjects")]
    assert sum(sizes) == 400
    assert max(sizes) <= 50
    found = findings(cli)
    assert f"at most {max(sizes)} keys; learnt" in found["batch-limit"]
    assert "Content-MD5 is sent with DeleteObjects; learnt" in found["content-md5"]


def test_a_bucket_in_another_region_is_named_with_it_by_check_and_plan(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    faulty.region = "eu-west-1"

    checked = cli("check", code=1)
    planned = cli("plan", "exports", code=2)

    for text in (checked.out, planned.err):
        assert "the bucket is in the region eu-west-1" in text
    assert len(faulty.keys("exports")) == 3


@pytest.fixture
def on_moto(cli: Cli, moto: Moto, moto_bucket: str, forks: Forks) -> Cli:
    cli.store("s", moto.endpoint, ("key-id", "secret"))
    cli.policy("exports", bucket=moto_bucket, older_than="1s")
    return cli


def test_on_moto_multi_delete_is_found_to_ignore_conditions_and_nothing_new_is_lost(
    on_moto: Cli, moto: Moto, moto_bucket: str
) -> None:
    client = plain_client(moto.settings())
    for n in range(20):
        client.put_object(Bucket=moto_bucket, Key=f"exports/{n:02d}.json", Body=b"old")
    assert "DeleteObjects ignores conditions" in findings(on_moto)["conditions-ignored"]
    soon = f"{datetime.now(UTC) + timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}"
    assert on_moto.json("plan", "exports", "--slot", soon)["eligible"] == 20
    client.put_object(Bucket=moto_bucket, Key="exports/07.json", Body=b"somebody's new one")

    worked = on_moto.json("work", "--drain")

    assert worked["outcomes"] == {"deleted": 19, "changed": 1}
    left = client.list_objects_v2(Bucket=moto_bucket)["Contents"]
    assert [one["Key"] for one in left] == ["exports/07.json"]
