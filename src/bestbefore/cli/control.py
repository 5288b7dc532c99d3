"""`pause` and `resume`."""

from datetime import datetime
from pathlib import Path

import click

from bestbefore.cli.context import Moment, emit, opened, verb
from bestbefore.read.documents import when

_policy = click.argument("policy", required=False)


@click.command()
@_policy
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option("--until", type=Moment(), help="When it ends by itself.")
@verb
def pause(
    config: Path, as_json: bool, policy: str | None, reason: str, until: datetime | None
) -> None:
    """Stop work on POLICY, or on every policy, within one batch. Planning goes on."""
    with opened(config) as system:
        if policy is not None:
            system.policy(policy)
        system.controls.pause(policy, reason, until, system.person, system.clock.now())
    document = {"paused": policy or "*", "reason": reason, "until": when(until)}
    emit(as_json, document, lambda: f"paused {policy or 'every policy'}: {reason}")


@click.command()
@_policy
@verb
def resume(config: Path, as_json: bool, policy: str | None) -> None:
    """Lift the pause of POLICY, or the one of every policy."""
    with opened(config) as system:
        lifted = system.controls.resume_work(policy, system.person, system.clock.now())
        backlog = {
            record.name: record.backlog
            for record in system.records.policies(system.clock.now())
            if policy in (None, record.name)
        }
    document = {"resumed": lifted, "backlog": backlog}
    what = policy or "every policy"
    text = f"resumed {what}" if lifted else f"there was no pause of {what}"
    waiting = sum(backlog.values())
    emit(as_json, document, lambda: f"{text}; {waiting:,} commands are waiting for a worker")
