"""How PostgreSQL stores and cleans the tables that change all the time. Nothing on SQLite.

An update there writes a new row beside the old one, which stays until it is vacuumed.

- A command is written four times (planned, published, claimed, recorded): vacuum after every
  hundredth row instead of every fifth, so that the index of what is due, which claims walk from
  its dead end, stays short; and room in each page, so that the next version lands beside its
  predecessor.
- The counts of a run change with every batch. No index holds them, so that with room in its page
  the row is rewritten in place and its predecessors are cleared without any vacuum.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(
        "ALTER TABLE operations SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01,"
        " autovacuum_analyze_scale_factor = 0.02)"
    )
    op.execute("ALTER TABLE runs SET (fillfactor = 30)")
    op.execute("ALTER TABLE run_tallies SET (fillfactor = 30)")
