"""The first schema: policies, runs, operations and what people do with them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "breakers",
        sa.Column("connection", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("next_probe_at", sa.BigInteger(), nullable=False),
        sa.Column("interval", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("connection"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("policy", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(length=12), nullable=True),
        sa.Column("operation_id", sa.LargeBinary(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "pauses",
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("policy"),
    )
    op.create_table(
        "policies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("connection", sa.String(), nullable=False),
        sa.Column("bucket", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("decides", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("planned_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "version"),
    )
    op.create_table(
        "verifications",
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("overdue", sa.BigInteger(), nullable=False),
        sa.Column("oldest_overdue", sa.BigInteger(), nullable=True),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("policy"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=12), nullable=False),
        sa.Column("policy_id", sa.Integer(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("first_slot", sa.BigInteger(), nullable=False),
        sa.Column("cutoff", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("approved", sa.Boolean(), nullable=False),
        sa.Column("inherited", sa.Text(), nullable=True),
        sa.Column("early", sa.Boolean(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("planner_token", sa.BigInteger(), nullable=True),
        sa.Column("planner_until", sa.BigInteger(), nullable=True),
        sa.Column("cursors", sa.Text(), nullable=True),
        sa.Column("scanned", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("in_scope", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("already_pending", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "already_completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("already_dead", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("reappeared", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("refused", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("planned", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("waiting", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pending", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("dead", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["policy_id"],
            ["policies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("policy_id", "slot"),
        sa.UniqueConstraint("run_id"),
    )
    op.create_table(
        "operations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("operation_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("policy_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("etag", sa.String(), nullable=False),
        sa.Column("last_modified", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.String(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("deliveries", sa.SmallInteger(), nullable=False),
        sa.Column("company", sa.Integer(), nullable=True),
        sa.Column("cancelled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_by", sa.String(), nullable=True),
        sa.Column("budget", sa.Text(), nullable=True),
        sa.Column("failure_class", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("first_failed_at", sa.BigInteger(), nullable=True),
        sa.Column("last_failed_at", sa.BigInteger(), nullable=True),
        sa.Column("redriven", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("reappearances", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("candidate_of", sa.Integer(), nullable=True),
        sa.Column("corrects", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(
            ["policy_id"],
            ["policies.id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("operation_id"),
    )
    op.create_index(
        "operations_candidates",
        "operations",
        ["candidate_of"],
        unique=False,
        sqlite_where=sa.text("candidate_of IS NOT NULL"),
        postgresql_where=sa.text("candidate_of IS NOT NULL"),
    )
    op.create_index(
        "operations_dead",
        "operations",
        ["policy_id", "first_failed_at"],
        unique=False,
        sqlite_where=sa.text("state = 'dead'"),
        postgresql_where=sa.text("state = 'dead'"),
    )
    op.create_index(
        "operations_due",
        "operations",
        ["policy_id", "due_at"],
        unique=False,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "operations_waiting",
        "operations",
        ["run_id", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "run_generations",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("youngest", sa.BigInteger(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_newest",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kept", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_tallies",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "kind", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "failures",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "operation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("failure_class", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["operation"],
            ["operations.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_failures_operation"), "failures", ["operation"], unique=False)
    # ### end Alembic commands ###
