"""Holds as people ask for them."""

from datetime import datetime

from bestbefore.app.system import System
from bestbefore.domain.hold import Hold, Scope
from bestbefore.domain.identity import instant
from bestbefore.ports.ledger import LedgerError


def scope_of(
    system: System, policy: str | None, store: str | None, bucket: str | None, prefix: str
) -> Scope:
    """What a hold is to be about: a policy, or a bucket of a store and maybe a prefix.

    Raises UnknownPolicy and LedgerError.
    """
    if policy is not None:
        if store or bucket or prefix:
            raise LedgerError("a hold is about either a policy, or a store and a bucket")
        return Scope(policy=system.policy(policy).name)
    if not store or not bucket:
        raise LedgerError(
            "what is to be held? give a policy, or a store and a bucket, with a prefix or not"
        )
    known = system.settings.stores
    if store not in known:
        raise LedgerError(
            f"there is no store {store}; stores are: {', '.join(sorted(known)) or 'none'}"
        )
    return Scope(store=store, place=known[store].place, bucket=bucket, prefix=prefix)


def hold(system: System, scope: Scope, reason: str, until: datetime | None, by: str) -> Hold:
    """Put a hold in force. Raises LedgerError without a reason, or where its end has passed."""
    now = system.clock.now()
    if not reason.strip():
        raise LedgerError("the reason is empty; say why, for whoever wonders")
    if until is not None and until <= now:
        raise LedgerError(f"until {instant(until)} has passed; it is {instant(now)} now")
    added = Hold(scope, reason, until, by, now)
    system.holds.add(added)
    return added


def concerned(system: System, scope: Scope) -> list[str]:
    """The policies of this file that a hold on *scope* can hold anything of."""
    return [
        name
        for name, policy in system.settings.policies.items()
        if scope.concerns(policy, system.place(policy))
    ]
