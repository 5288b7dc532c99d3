"""Holds, and why an operation ended as protected."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "holds",
        sa.Column("hold_id", sa.String(length=12), nullable=False),
        sa.Column("policy", sa.String(), nullable=True),
        sa.Column("store", sa.String(), nullable=True),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("bucket", sa.String(), nullable=True),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hold_id"),
    )
    op.add_column("operations", sa.Column("reason", sa.Text(), nullable=True))
