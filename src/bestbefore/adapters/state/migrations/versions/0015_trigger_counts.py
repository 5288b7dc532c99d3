"""What became of triggers that came through a queue is counted."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the counts."""
    op.create_table(
        "trigger_counts",
        sa.Column("fate", sa.String(), primary_key=True),
        sa.Column("n", sa.BigInteger(), nullable=False),
    )
