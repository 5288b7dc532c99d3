"""What upkeep has taken out of the ledger and where it stands; what was learnt of endpoints."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "runs", sa.Column("pruned", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    op.create_index(
        "operations_corrects",
        "operations",
        ["corrects"],
        unique=False,
        sqlite_where=sa.text("corrects IS NOT NULL"),
        postgresql_where=sa.text("corrects IS NOT NULL"),
    )
    op.create_table(
        "upkeep",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column(
            "looked_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("export", sa.String(), nullable=True),
        sa.Column("operations", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "endpoints",
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("bucket", sa.String(), nullable=False),
        sa.Column("capability", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("learnt_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "bucket", "capability"),
    )
