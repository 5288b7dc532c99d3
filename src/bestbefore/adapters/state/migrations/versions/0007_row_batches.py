"""Row batches: what they are, what they changed, and how many rows a run has planned."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_PARTS = sa.text("parent IS NOT NULL")
_EFFECTIVE = sa.text("seconds IS NOT NULL")


def upgrade() -> None:
    """Add what policies about rows take."""
    op.add_column(
        "policies",
        sa.Column("about_rows", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.add_column(
        "runs", sa.Column("rows", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.create_table(
        "row_batches",
        sa.Column("operation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
                  sa.ForeignKey("operations.id"), primary_key=True, autoincrement=False),
        sa.Column("policy_id", sa.Integer(), sa.ForeignKey("policies.id"), nullable=False),
        sa.Column("first", sa.Text(), nullable=False),
        sa.Column("last", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("oldest", sa.BigInteger(), nullable=False),
        sa.Column("walk", sa.String(), nullable=False),
        sa.Column("shape", sa.String(), nullable=False),
        sa.Column("parent", sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
                  sa.ForeignKey("operations.id")),
        sa.Column("deleted", sa.BigInteger()),
        sa.Column("archived", sa.BigInteger()),
        sa.Column("blocked", sa.BigInteger()),
        sa.Column("dependents", sa.Text()),
        sa.Column("replayed", sa.Boolean()),
        sa.Column("seconds", sa.Float()),
    )  # fmt: skip
    op.create_index(
        "row_batches_parts",
        "row_batches",
        ["parent"],
        sqlite_where=_PARTS,
        postgresql_where=_PARTS,
    )
    op.create_index(
        "row_batches_effective",
        "row_batches",
        ["policy_id", "operation"],
        sqlite_where=_EFFECTIVE,
        postgresql_where=_EFFECTIVE,
    )
