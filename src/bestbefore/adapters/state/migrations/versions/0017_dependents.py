"""Batches know what they may remove and change in other tables, and runs what that adds up to."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; the sums of a run are tallies."""
    op.add_column("row_batches", sa.Column("planned_dependents", sa.Text()))
    op.add_column("row_batches", sa.Column("changed", sa.Text()))
    op.add_column("runs", sa.Column("own_table", sa.String()))
    op.add_column(
        "runs",
        sa.Column("most_dependents", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
