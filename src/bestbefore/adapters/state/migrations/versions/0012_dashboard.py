"""What the dashboard shows without counting: incidents, what was left to do, who is signed in."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.incident import gist, incident_id

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_DEAD = sa.text("state = 'dead'")
_PAGE = 1_000

_OLD = sa.text(
    "SELECT id, policy_id, failure_class, error, key, first_failed_at, last_failed_at "
    "FROM operations WHERE state = 'dead' AND id > :after ORDER BY id LIMIT :page"
)
_BELONGS = sa.text("UPDATE operations SET incident = :incident WHERE id = :row")


def upgrade() -> None:
    """Add them, and find the incidents of the dead letters there are."""
    op.add_column("operations", sa.Column("incident", sa.LargeBinary(16)))
    op.create_index(
        "operations_incident",
        "operations",
        ["incident", "first_failed_at"],
        sqlite_where=_DEAD,
        postgresql_where=_DEAD,
    )
    incidents = op.create_table(
        "incidents",
        sa.Column("incident", sa.LargeBinary(16), primary_key=True),
        sa.Column("policy_id", sa.Integer(), sa.ForeignKey("policies.id"), primary_key=True),
        sa.Column("failure_class", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("incidents_by_size", "incidents", ["n"])
    op.create_index("events_by_action", "events", ["action", "id"])
    op.create_index("events_by_person", "events", ["by", "id"])
    op.create_index("events_by_policy", "events", ["policy", "id"])
    op.create_table(
        "backlogs",
        sa.Column("policy", sa.String(), primary_key=True),
        sa.Column("at", sa.BigInteger(), primary_key=True),
        sa.Column("backlog", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("backlogs_by_time", "backlogs", ["at"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("token", sa.LargeBinary(32), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
    )
    _group(incidents)


def _group(incidents: sa.Table) -> None:
    connection, after = op.get_bind(), 0
    found: dict[tuple[bytes, int], dict[str, Any]] = {}
    while True:
        page = connection.execute(_OLD, {"after": after, "page": _PAGE}).fetchall()
        for row in page:
            error = gist(row.error, row.key)
            name = incident_id(FailureClass(row.failure_class), error)
            one = found.setdefault(
                (name, row.policy_id),
                {"incident": name, "policy_id": row.policy_id, "failure_class": row.failure_class,
                 "error": error, "n": 0, "first_at": row.first_failed_at,
                 "last_at": row.last_failed_at},
            )  # fmt: skip
            one["n"] += 1
            one["first_at"] = min(one["first_at"], row.first_failed_at)
            one["last_at"] = max(one["last_at"], row.last_failed_at)
            connection.execute(_BELONGS, {"incident": name, "row": row.id})
        if len(page) < _PAGE:
            break
        after = page[-1].id
    if found:
        connection.execute(sa.insert(incidents), list(found.values()))
