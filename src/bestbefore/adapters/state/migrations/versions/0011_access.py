"""Who may do what over HTTP, and what was asked already."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tokens, deliveries and answers."""
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("digest", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger()),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("sender_id", sa.String(), primary_key=True),
        sa.Column("until", sa.BigInteger(), nullable=False, index=True),
    )
    op.create_table(
        "answers",
        sa.Column("key", sa.LargeBinary(32), primary_key=True),
        sa.Column("request", sa.LargeBinary(32), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("until", sa.BigInteger(), nullable=False, index=True),
    )
