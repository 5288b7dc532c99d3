"""Messages that execute nothing are kept until a person has looked; since when a queue is in use is
noted, so that one can be drained into another."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.add_column("outbox", sa.Column("since", sa.BigInteger()))
    op.create_table(
        "strays",
        sa.Column("id", sa.LargeBinary(32), primary_key=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("failure_class", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("strays_by_age", "strays", ["first_at", "id"])
