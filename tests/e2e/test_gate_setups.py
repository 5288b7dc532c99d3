"""The gate on real setups: every promise holds, and what a setup cannot show is named."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from support.gates import Gates, failures
from support.mariadb import Mariadb
from support.postgresql import Postgres
from support.rabbitmq import Rabbit
from support.sqs_servers import SqsServer

pytestmark = pytest.mark.takes_minutes


def test_the_gate_passes_on_sqlite_and_seaweedfs(
    gates: Gates, seaweed: Seaweed, bucket: str, tmp_path: Path
) -> None:
    gates.objects(seaweed.settings(), bucket)
    gates.rows(_file(tmp_path))
    assert failures(gates.play()) == {}


def test_the_gate_passes_on_postgresql_seaweedfs_and_rabbitmq(
    gates: Gates, seaweed: Seaweed, bucket: str, postgres: Postgres, rabbit: Rabbit
) -> None:
    url = postgres.database_url(postgres.database)
    gates.state(url)
    gates.rows(url)
    gates.rabbitmq(rabbit)
    gates.objects(seaweed.settings(), bucket)
    assert failures(gates.play()) == {}


def test_the_gate_passes_on_postgresql_and_sqs(
    gates: Gates, seaweed: Seaweed, bucket: str, postgres: Postgres, moto_queues: SqsServer
) -> None:
    gates.state(postgres.database_url(postgres.database))
    gates.sqs(moto_queues)
    gates.objects(seaweed.settings(), bucket)
    assert failures(gates.play()) == {}


def test_the_gate_passes_on_rows_of_mariadb(gates: Gates, mariadb: Mariadb) -> None:
    name = mariadb.create_database()
    try:
        gates.rows(mariadb.url(name))
        assert failures(gates.play()) == {}
    finally:
        mariadb.drop_database(name)


def _file(folder: Path) -> str:
    file = folder / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return f"sqlite:///{file}"
