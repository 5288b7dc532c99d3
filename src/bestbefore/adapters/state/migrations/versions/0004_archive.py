"""Unfinished uploads; copies of archived objects, made and brought back."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operations", sa.Column("upload_id", sa.String(), nullable=True))
    op.add_column("operations", sa.Column("copied_at", sa.BigInteger(), nullable=True))
    op.add_column("operations", sa.Column("archive_key", sa.Text(), nullable=True))
    op.add_column("operations", sa.Column("archive_etag", sa.String(), nullable=True))
    op.add_column("operations", sa.Column("restored_at", sa.BigInteger(), nullable=True))
    op.add_column("operations", sa.Column("restored_etag", sa.String(), nullable=True))
