"""Versions, locks, and the newest entry of a key that goes last."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_FALSE = sa.text("false")
_UNSETTLED = sa.text(
    "version_id IS NOT NULL AND (state <> 'completed' OR candidate_of IS NOT NULL)"
)
_TIED = sa.text("follows AND held")


def upgrade() -> None:
    """Add what a bucket that keeps versions takes."""
    op.add_column("policies", sa.Column("versions", sa.String()))
    op.add_column(
        "runs", sa.Column("held", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column("operations", sa.Column("version_id", sa.String()))
    for name in ("follows", "held"):
        op.add_column(
            "operations", sa.Column(name, sa.Boolean(), nullable=False, server_default=_FALSE)
        )
    op.create_index(
        "operations_unsettled",
        "operations",
        ["policy_id", "key"],
        sqlite_where=_UNSETTLED,
        postgresql_where=_UNSETTLED,
    )
    op.create_index(
        "operations_tied",
        "operations",
        ["policy_id", "key"],
        sqlite_where=_TIED,
        postgresql_where=_TIED,
    )
