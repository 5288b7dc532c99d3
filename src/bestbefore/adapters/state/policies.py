"""Policy versions as the ledger has them, as functions on an open transaction."""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state.database import micros
from bestbefore.adapters.state.schema import policies
from bestbefore.domain.policy import Policy, what_changed
from bestbefore.ports.ledger import PolicyEdited


def stored(connection: sa.Connection, policy: Policy) -> Any:
    """The row of this policy version, or None."""
    return connection.execute(
        sa.select(policies).where(
            policies.c.name == policy.name, policies.c.version == policy.version
        )
    ).one_or_none()


def refuse_edited(policy: Policy, row: Any) -> None:
    """Raise PolicyEdited where *row*, stored under the same version, selects something else."""
    if row is not None and row.fingerprint != policy.fingerprint():
        changes = "; ".join(what_changed(json.loads(row.decides), policy.decides()))
        raise PolicyEdited(
            f"policies.{policy.name}: what it selects changed under version "
            f'"{policy.version}" ({changes}); give it a new version, or take the change back'
        )


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
            bucket=policy.source.bucket,
            action=policy.action,
            fingerprint=policy.fingerprint(),
            decides=json.dumps(policy.decides()),
            current=True,
            planned_at=micros(now),
        )
        .returning(policies.c.id)
    ).scalar_one()
    return created
