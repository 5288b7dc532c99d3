"""What all workers may do to each database together."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ZERO = sa.text("0")


def upgrade() -> None:
    """Add who may run batches, how fast they may follow one another, and what they wait for."""
    op.create_table(
        "row_slots",
        sa.Column("connection", sa.String(), primary_key=True),
        sa.Column("holder", sa.String(), primary_key=True),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("served", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "row_paces",
        sa.Column("connection", sa.String(), primary_key=True),
        sa.Column("debt", sa.Float(), nullable=False, server_default=_ZERO),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("stirred_at", sa.BigInteger(), nullable=False, server_default=_ZERO),
        sa.Column("batches", sa.Integer(), nullable=False, server_default=_ZERO),
        sa.Column("held_at", sa.BigInteger(), nullable=False, server_default=_ZERO),
        sa.Column("reason", sa.Text()),
        sa.Column("until", sa.BigInteger()),
        sa.Column("said_at", sa.BigInteger(), nullable=False, server_default=_ZERO),
    )
