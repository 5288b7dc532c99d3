"""Counts of a policy that outlive its runs; of a run who began it, and what came after its end."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_DEAD = sa.text("state = 'dead'")
_PEOPLE = "('discarded', 'corrected')"

_SO_FAR = (
    """SELECT r.policy_id, 'completed', t.name, sum(t.n), sum(t.bytes)
       FROM run_tallies t JOIN runs r ON r.id = t.run_id WHERE t.kind = 'outcome'
       GROUP BY r.policy_id, t.name HAVING sum(t.n) > 0""",
    """SELECT r.policy_id, t.kind, t.name, sum(t.n), 0
       FROM run_tallies t JOIN runs r ON r.id = t.run_id WHERE t.kind IN ('retried', 'rows')
       GROUP BY r.policy_id, t.kind, t.name HAVING sum(t.n) > 0""",
    """SELECT p.id, 'scanned', CASE WHEN p.about_rows THEN 'row' ELSE 'object' END,
       sum(r.scanned), 0 FROM runs r JOIN policies p ON p.id = r.policy_id
       GROUP BY p.id, p.about_rows HAVING sum(r.scanned) > 0""",
    """SELECT policy_id, 'planned', '', sum(planned), 0 FROM runs
       GROUP BY policy_id HAVING sum(planned) > 0""",
    """SELECT policy_id, 'published', '', sum(pending + completed + dead), 0 FROM runs
       GROUP BY policy_id HAVING sum(pending + completed + dead) > 0""",
    """SELECT policy_id, k.kind, failure_class, count(*), 0
       FROM operations, (SELECT 'dead' AS kind UNION ALL SELECT 'died') k
       WHERE state = 'dead' GROUP BY policy_id, k.kind, failure_class""",
    """SELECT policy_id, 'redriven', '', count(*), 0 FROM operations
       WHERE redriven > 0 GROUP BY policy_id""",
    f"""SELECT policy_id, 'redriven_completed', outcome, count(*), 0 FROM operations
       WHERE redriven > 0 AND state = 'completed' AND outcome NOT IN {_PEOPLE}
       GROUP BY policy_id, outcome""",  # noqa: S608  (a constant)
)
"""What the ledger still knows of what happened before."""


def upgrade() -> None:
    """Add the counts, begun with what runs and operations say, and the times."""
    op.create_table(
        "policy_counts",
        sa.Column("policy_id", sa.Integer(), sa.ForeignKey("policies.id"), primary_key=True),
        sa.Column("kind", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 30},
    )
    for known in _SO_FAR:
        op.execute(f"INSERT INTO policy_counts (policy_id, kind, name, n, amount) {known}")
    op.create_index(
        "operations_dead_by_class",
        "operations",
        ["policy_id", "failure_class", "first_failed_at"],
        sqlite_where=_DEAD,
        postgresql_where=_DEAD,
    )
    op.add_column("runs", sa.Column("created_by", sa.String()))
    op.add_column("runs", sa.Column("drained_at", sa.BigInteger()))
    op.add_column("runs", sa.Column("proof_until", sa.BigInteger()))
