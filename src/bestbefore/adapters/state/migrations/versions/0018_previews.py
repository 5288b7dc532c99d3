"""What a person is shown of a parked run is kept with it, and what a scan left where it is."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "run_previews",
        sa.Column(
            "run_id", sa.Integer(), sa.ForeignKey("runs.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("stays", sa.Text()),
        sa.Column("shown", sa.Text()),
    )
