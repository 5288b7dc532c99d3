"""Which schedules are known, and the slots that nobody has answered."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is expected, and what came of it where no run tells."""
    op.create_table(
        "schedules",
        sa.Column("policy", sa.String(), primary_key=True),
        sa.Column("schedule", sa.String(), primary_key=True),
        sa.Column("timezone", sa.String(), primary_key=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "slots",
        sa.Column("policy", sa.String(), primary_key=True),
        sa.Column("slot", sa.BigInteger(), primary_key=True),
        sa.Column("trouble", sa.Text()),
        sa.Column("verdict", sa.String()),
        sa.Column("reason", sa.Text()),
        sa.Column("noticed_at", sa.BigInteger()),
    )
