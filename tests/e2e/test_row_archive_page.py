"""What ``docs/row-archive.md`` says to type: to a table, and to files on a real S3 server, on every
kind of database."""

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from bestbefore.adapters.objects.s3.seaweed import ADMIN, LIMITED, Identity, Seaweed
from bestbefore.app.formats import row_format
from support.cli import Reply
from support.cli_shop import OLD, YOUNG, CliShop
from support.docs import blocks, configurations

N = 1_200


def shipments(shop: CliShop) -> None:
    """The page's table: of three updates two are old."""
    shop.database.run(
        f"CREATE TABLE shipment_updates (id BIGINT PRIMARY KEY, delivered_at {shop.instant} NULL, "
        "price DECIMAL(9, 2))",
        "CREATE INDEX by_date ON shipment_updates (delivered_at, id)",
    )
    shop.insert(
        "shipment_updates",
        *((n, YOUNG if n % 3 == 0 else OLD + timedelta(seconds=n), n) for n in range(1, N + 1)),
    )


def page(shop: CliShop, which: int, **meant: str) -> None:
    """The page's configuration, with a column without a zone, so that one table does for all."""
    text = configurations("row-archive.md")[which]
    for written, instead in {"batch_size": 'timestamp_zone = "UTC"\nbatch_size', **meant}.items():
        assert written in text
        text = text.replace(written, instead)
    (shop.folder / "bestbefore.toml").write_text(text)


def in_bucket(shop: CliShop, seaweed: Seaweed, bucket: str, **meant: str) -> None:
    there = {"http://127.0.0.1:8333": seaweed.endpoint, '"archive"\nprefix': f'"{bucket}"\nprefix'}
    page(shop, 1, **there, **meant)


def env_of(shop: CliShop, identity: Identity) -> dict[str, str]:
    return {
        "SHOP_URL": shop.database.url,
        "COLD_KEY_ID": identity.access_key_id,
        "COLD_SECRET": identity.secret_access_key,
    }


def typed(shop: CliShop, which: int, env: Mapping[str, str]) -> dict[str, Reply]:
    """What each command of a block answers."""
    said: dict[str, Reply] = {}
    run = ""
    for words in blocks("row-archive.md")[which]:
        reply = shop(*(run if word == "RUN" else word for word in words), env=env)
        if words[0] == "run":
            run = json.loads(shop("runs", "list", "--json", env=env).out)[0]["run_id"]
        said[" ".join(words)] = reply
    return said


def test_what_the_page_says_to_type_moves_rows_to_a_table_and_back(shop: CliShop) -> None:
    shipments(shop)
    page(shop, 0)
    env = {"SHOP_URL": shop.database.url}
    before = shop.database.ask("SELECT * FROM shipment_updates ORDER BY id")
    missing = shop("check", code=1, env=env).out
    assert "there is no table shipment_updates_archive" in missing
    create = missing[missing.index("CREATE TABLE") :].replace("`", '"').split("))\n")[0] + "))"
    shop.database.run(create.split("\n")[0])

    said = typed(shop, 0, env)

    assert "archive-reached" in said["check"].out
    assert "2 batches of 800 rows" in said["plan stale-updates --dry-run"].out
    assert "800 rows archived" in said["run stale-updates"].out
    assert "800 rows would be brought back" in said["restore --run RUN --dry-run"].out
    assert "brought back 800 rows" in said["restore --run RUN"].out
    assert shop.database.ask("SELECT * FROM shipment_updates ORDER BY id") == before
    assert shop.left("shipment_updates_archive") == []


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_the_page_says_to_type_writes_files_and_brings_their_rows_back(
    shop: CliShop, seaweed: Seaweed, bucket: str, form: str
) -> None:
    shipments(shop)
    in_bucket(shop, seaweed, bucket, **{'"jsonl"': f'"{form}"'})
    env = env_of(shop, ADMIN)
    before = shop.database.ask("SELECT * FROM shipment_updates ORDER BY id")

    said = typed(shop, 1, env)

    assert "archive-reached" in said["check"].out
    assert "800 rows archived" in said["run stale-updates"].out
    assert "brought back 800 rows" in said["restore --run RUN"].out
    assert shop.database.ask("SELECT * FROM shipment_updates ORDER BY id") == before
    client, ids = seaweed.client(), []
    for line in said["export --run RUN"].lines:
        archive = line["archive"]
        assert archive["key"].startswith(f"updates/{line['operation_id']}-")
        body = client.get_object(Bucket=bucket, Key=archive["key"])["Body"].read()
        file = row_format(form).decode(body)
        assert file.digest.hex() == archive["etag"]
        assert len(file.rows) == line["effect"]["rows"]["archived"]
        ids += [row[0] for row in file.rows]
    assert sorted(ids) == [n for n in range(1, N + 1) if n % 3]
    assert len(client.list_objects_v2(Bucket=bucket)["Contents"]) == 2


def test_keys_that_may_not_write_the_archive_delete_no_row(
    small_shop: CliShop, seaweed: Seaweed, bucket: str
) -> None:
    shipments(small_shop)
    in_bucket(small_shop, seaweed, bucket)

    run = small_shop("run", "stale-updates", code=1, env=env_of(small_shop, LIMITED))

    assert "2 dead" in run.out
    assert len(small_shop.left("shipment_updates")) == N
    redriven = small_shop("dlq", "redrive", "--all", env=env_of(small_shop, ADMIN))
    assert "2" in redriven.out
    small_shop("work", "--drain", env=env_of(small_shop, ADMIN))
    assert len(small_shop.left("shipment_updates")) == N // 3


def test_a_missing_bucket_is_found_by_the_check_and_stops_the_policy(
    small_shop: CliShop, seaweed: Seaweed, bucket: str
) -> None:
    shipments(small_shop)
    in_bucket(small_shop, seaweed, f"{bucket}-missing")
    env = env_of(small_shop, ADMIN)

    assert "archive-missing" in small_shop("check", code=1, env=env).out
    small_shop("run", "stale-updates", code=1, env=env)

    (policy,) = json.loads(small_shop("status", "--json", env=env).out)["policies"]
    assert "NoSuchBucket" in policy["paused"]
    assert len(small_shop.left("shipment_updates")) == N
    names = [found["Name"] for found in seaweed.client().list_buckets()["Buckets"]]
    assert f"{bucket}-missing" not in names
