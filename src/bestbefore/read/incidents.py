"""Dead letters by what went wrong, from stored counts."""

from bestbefore.domain.failure import FailureClass
from bestbefore.ports.records import Records
from bestbefore.read.documents import Document, when

_MOST = 300
"""Policy versions with their causes that are read; those with most dead letters."""


def incident_documents(
    records: Records, policy: str | None = None, failure_class: FailureClass | None = None
) -> list[Document]:
    """One for each class and error, the largest first, with the policies it is about."""
    found: dict[bytes, Document] = {}
    for one in records.incidents(policy, failure_class, _MOST):
        document = found.setdefault(
            one.incident,
            {
                "incident": one.incident.hex(),
                "failure_class": one.failure_class.value,
                "error": one.error,
                "dead": 0,
                "first_at": when(one.first_at),
                "last_at": when(one.last_at),
                "policies": [],
            },
        )
        document["dead"] += one.n
        document["first_at"] = min(document["first_at"], when(one.first_at))
        document["last_at"] = max(document["last_at"], when(one.last_at))
        document["policies"].append(
            {
                "policy": one.policy,
                "policy_version": one.policy_version,
                "owner": one.owner,
                "superseded": one.superseded,
                "dead": one.n,
            }
        )
    return sorted(found.values(), key=lambda one: -one["dead"])
