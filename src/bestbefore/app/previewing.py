"""Gather what a person is shown of a run before it is released: in a dry run, or once it parked."""

import logging

from bestbefore.app.system import System
from bestbefore.domain.policy import Policy
from bestbefore.domain.preview import Preview, PreviewBuilder, stays_by_prefix, stays_by_table
from bestbefore.domain.rows import RowBatch, Walk
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.previews import Previews
from bestbefore.ports.rows import RowsShown, TableRefused

log = logging.getLogger(__name__)


def gather(system: System, policy: Policy, run: Run, previews: Previews) -> Preview:
    """Look at everything that waits in *run*, whose ledger *previews* belong to.

    Raises LedgerError. Of a table the database is asked what the first batch does; where it does
    not answer, the preview has no statement.
    """
    builder = PreviewBuilder(None if policy.about_rows else policy.objects.prefix, run.waiting)
    for target in previews.selected(run):
        builder.add(target)
    if not policy.about_rows:
        return builder.build(stays_by_prefix(previews.stays(run)))
    stays = stays_by_table(run.protected, run.referenced)
    if builder.first is None or (shown := _shown(system, policy, run, builder.first)) is None:
        return builder.build(stays)
    return builder.build(stays, shown.statement, shown.triggers)


def keep_preview(system: System, policy: Policy, run: Run) -> Preview | None:
    """Gather the preview of the parked *run* and store it with it; None where that fails, which
    leaves the run as it is: `preview_of` tries again."""
    try:
        preview = gather(system, policy, run, system.previews)
        system.previews.keep(run, preview)
    except LedgerError as error:
        about = {"run_id": run.run_id, "policy": policy.name}
        log.warning("the run is parked without a preview: %s", error, extra=about)
        return None
    return preview


def preview_of(system: System, run: Run) -> Preview | None:
    """The stored preview of *run*. Where it is parked and has none (an older version planned it, or
    its planner was interrupted) it is gathered now, if this configuration has its policy."""
    found = system.previews.find(run)
    policy = system.settings.policies.get(run.policy)
    if found is not None or run.state is not RunState.PARKED or policy is None:
        return found
    return keep_preview(system, policy, run) if policy.version == run.policy_version else None


def _shown(system: System, policy: Policy, run: Run, batch: RowBatch) -> RowsShown | None:
    reader, source = system.tables(policy.connection).reader, policy.rows
    walk = None if batch.walk is Walk.PARTITION else batch.walk
    try:
        return reader.show(source, reader.describe(source, walk), run.cutoff, batch)
    except (StoreError, TableRefused) as error:
        about = {"run_id": run.run_id, "policy": policy.name}
        log.warning("its statement cannot be shown: %s", error, extra=about)
        return None
