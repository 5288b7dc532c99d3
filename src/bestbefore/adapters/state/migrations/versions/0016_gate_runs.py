"""How the gate ended is remembered, and for which connections."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    row = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "gate_runs",
        sa.Column("id", row, primary_key=True),
        sa.Column("connections", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("not_applicable", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
    )
    op.create_index("gate_runs_by_connections", "gate_runs", ["connections", "id"])
