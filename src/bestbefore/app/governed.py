"""What the policies of other tables would remove now, for a policy that may remove their rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from bestbefore.domain.names import texts
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import Governed, RowSource


def governed(
    policy: Policy,
    slot: datetime,
    policies: Mapping[str, Policy],
    place: Callable[[Policy], str],
    idle: Callable[[Policy], bool],
) -> Policy:
    """*policy* with what each policy of another table of its database removes at *slot*.

    *place* says where the database of a policy is; *idle* that it removes nothing now, as it is
    paused or on hold. A table with several policies loses nothing: which of them decides about a
    row is for these to say.
    """
    if not policy.about_rows or not policy.rows.governed:
        return policy
    found = []
    for table in policy.rows.governed:
        its = [
            other
            for other in policies.values()
            if isinstance(other.source, RowSource)
            and texts(other.source.table) == texts(table.table)
            and place(other) == place(policy)
        ]
        found.append(Governed(table.table))
        if len(its) == 1 and its[0].action == "delete" and not idle(its[0]):
            own = replace(its[0].rows, governed=())
            found[-1] = Governed(table.table, own, its[0].older_than.before(slot))
    return replace(policy, source=replace(policy.rows, governed=tuple(found)))
