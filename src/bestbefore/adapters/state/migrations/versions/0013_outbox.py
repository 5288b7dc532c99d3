"""Operations that are at a broker, and which broker that is."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SENT = sa.text("sent_at IS NOT NULL")


def upgrade() -> None:
    """Say of an operation since when it is at a broker."""
    op.add_column("operations", sa.Column("sent_at", sa.BigInteger()))
    op.create_index(
        "operations_sent",
        "operations",
        ["policy_id", "sent_at"],
        sqlite_where=_SENT,
        postgresql_where=_SENT,
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("queue", sa.Text(), nullable=False),
    )
