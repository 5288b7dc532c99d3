"""Messages of ours as a queue would push them, of a run that is planned and published."""

from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.schema import operations, runs
from support.cli import Cli, fill
from support.faults import FaultyS3

SLOT = "2026-06-01T02:00:00Z"


def messages(cli: Cli, faulty: FaultyS3, n: int) -> list[dict[str, Any]]:
    """The commands of a run of *n* objects, which is planned and published."""
    keys = fill(faulty, n)
    cli("plan", "exports", "--slot", SLOT)
    change(cli, state="pending", due_at=0)
    rows = {row["key"]: row for row in cli("export").lines}
    return [
        {
            "v": 1,
            "kind": "object",
            "operation_id": rows[key]["operation_id"],
            "policy": "exports",
            "policy_version": "v1",
            "slot": SLOT,
            "action": "delete",
            "bucket": "exports",
            "key": key,
            "etag": rows[key]["etag"],
            "last_modified": rows[key]["last_modified"],
        }
        for key in keys
    ]


def url(cli: Cli) -> str:
    return cli.state or f"sqlite:///{cli.folder / 'bestbefore.db'}"


def change(cli: Cli, **values: object) -> None:
    database = Database(url(cli))
    with database.write() as connection:
        n = connection.execute(sa.update(operations).values(**values)).rowcount
        if values.get("state") == "pending":
            connection.execute(sa.update(runs).values(waiting=0, pending=n))
    database.dispose()
