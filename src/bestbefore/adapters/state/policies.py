"""Policy versions as the ledger has them, as functions on an open transaction."""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state.database import micros
from bestbefore.adapters.state.schema import operations, policies, runs
from bestbefore.domain.policy import Policy, what_changed
from bestbefore.domain.versions import Versions
from bestbefore.ports.ledger import PolicyEdited

_STORED = sa.select(policies).where(
    policies.c.name == sa.bindparam("name"), policies.c.version == sa.bindparam("version")
)
_VERSIONS_OF = sa.select(policies.c.versions).where(policies.c.id == sa.bindparam("row"))

_DEPENDENTS = "rows.dependents"
_UPGRADE = (
    "`dependents` is `none` by default since 0.2: raise the version, or write "
    '`dependents = "auto"` under the old one'
)
"""What 0.1 recorded of a policy that said nothing of dependents is what "auto" still means."""


def stored(connection: sa.Connection, policy: Policy) -> Any:
    """The row of this policy version, or None."""
    which = {"name": policy.name, "version": policy.version}
    return connection.execute(_STORED, which).one_or_none()


def refuse_edited(policy: Policy, row: Any) -> None:
    """Raise PolicyEdited where *row*, stored under the same version, selects something else."""
    if row is not None and row.fingerprint != policy.fingerprint():
        why = _why_edited(policy, json.loads(row.decides))
        raise PolicyEdited(f"policies.{policy.name}: {why}")


def _why_edited(policy: Policy, before: dict[str, object]) -> str:
    changes = what_changed(before, policy.decides())
    of_0_1 = _DEPENDENTS in before and f"{_DEPENDENTS}: null became []" in changes
    if of_0_1 and len(changes) == 1:
        return _UPGRADE
    also = f". Also, {_UPGRADE}" if of_0_1 else ""
    return (
        f'what it selects changed under version "{policy.version}" ({"; ".join(changes)}); '
        f"give it a new version, or take the change back{also}"
    )


def frees(connection: sa.Connection, row: int) -> bool:
    """Whether deleting what this policy version selects frees its bytes, instead of hiding it."""
    return versions_of(connection, row) != Versions.MARKER


def about_rows(connection: sa.Connection, row: int) -> bool:
    """Whether this policy version is about rows of a table."""
    said: bool = connection.execute(
        sa.select(policies.c.about_rows).where(policies.c.id == row)
    ).scalar_one()
    return said


def versions_of(connection: sa.Connection, row: int) -> str | None:
    """What this policy version does in a bucket that keeps versions."""
    said: str | None = connection.execute(_VERSIONS_OF, {"row": row}).scalar_one_or_none()
    return said


def prefix(connection: sa.Connection, row: int) -> str:
    """What the keys of this policy version, which is about objects, begin with."""
    said = connection.execute(sa.select(policies.c.decides).where(policies.c.id == row))
    found: str = json.loads(said.scalar_one())["objects.prefix"]
    return found


def make_current(connection: sa.Connection, policy: Policy, now: datetime) -> int:
    """The row of this policy version, which becomes the current one."""
    row = stored(connection, policy)
    refuse_edited(policy, row)
    connection.execute(
        sa.update(policies)
        .where(
            policies.c.name == policy.name,
            policies.c.version != policy.version,
            policies.c.current.is_(True),
        )
        .values(current=False)
    )
    _end_waiting(connection, policy, now)
    if row is not None:
        connection.execute(
            sa.update(policies)
            .where(policies.c.id == row.id)
            .values(current=True, owner=policy.owner, planned_at=micros(now))
        )
        return int(row.id)
    created: int = connection.execute(
        sa.insert(policies)
        .values(
            name=policy.name,
            version=policy.version,
            owner=policy.owner,
            connection=policy.connection,
            bucket=policy.container,
            action=policy.action,
            versions=policy.versions,
            about_rows=policy.about_rows,
            fingerprint=policy.fingerprint(),
            decides=json.dumps(policy.decides()),
            current=True,
            planned_at=micros(now),
        )
        .returning(policies.c.id)
    ).scalar_one()
    return created


def _end_waiting(connection: sa.Connection, policy: Policy, now: datetime) -> None:
    """What older versions hold is due: for a worker to end it as superseded, not to delete it."""
    older = sa.select(policies.c.id).where(
        policies.c.name == policy.name, policies.c.version != policy.version
    )
    for row in connection.scalars(older).all():
        if connection.scalar(sa.select(sa.func.sum(runs.c.held)).where(runs.c.policy_id == row)):
            connection.execute(
                sa.update(operations)
                .where(
                    operations.c.policy_id == row,
                    operations.c.state == sa.literal_column("'pending'"),
                    operations.c.held.is_(True),
                    operations.c.token.is_(None),
                )
                .values(due_at=micros(now))
            )
