"""`check`: would each policy run, and what can it rely on?"""

from collections.abc import Iterator

from bestbefore.app import gate_checks, object_checks, queue_checks, row_checks, schedule_checks
from bestbefore.app.settings import ThrottleSettings
from bestbefore.app.system import System
from bestbefore.app.throttle import Strains
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import Policy
from bestbefore.read.slots import changes, note_document


def findings(system: System, *, queue: bool) -> list[Finding]:
    """Everything worth saying about this setup, in the order of the file. Deletes nothing."""
    return [*capabilities(system, queue=queue), *gate_checks.checked(system)]


def capabilities(system: System, *, queue: bool, trying: bool = True) -> list[Finding]:
    """The same without what is remembered of the gate. *trying* publishes a message that executes
    nothing, where the *queue* is looked at too."""
    found = list(system.settings.warnings)
    if queue:
        found += queue_checks.checked(system, trying=trying)
    found += _holds(system)
    found += _throttles(system)
    skips, deployed = schedule_checks.checked(system)
    found += deployed
    for policy in system.settings.policies.values():
        found += _clock_changes(system, policy, skips=skips)
        checks = row_checks if policy.about_rows else object_checks
        found += checks.checked(system, policy)
    return found


def _throttles(system: System) -> Iterator[Finding]:
    """Whether what ``throttle`` of each database names can be asked, and what it says."""
    for name, settings in system.settings.databases.items():
        if settings.throttle == ThrottleSettings():
            continue
        strains = Strains(settings)
        try:
            strain = strains.ask()
        except ImportError:
            continue  # of which each policy tells
        finally:
            strains.close()
        if strain is None:
            yield Finding(
                "throttle-clear", Level.INFO, f"databases.{name}: no throttle makes work wait", ""
            )
        else:
            yield Finding(
                "throttle-strain",
                Level.WARNING,
                f"databases.{name}: work would wait now: {strain}",
                "nothing to do if that passes by itself; else correct throttle, or grant what it "
                "takes to ask",
            )


def _clock_changes(system: System, policy: Policy, *, skips: bool) -> Iterator[Finding]:
    """*skips* says that an outside scheduler does not fire at a local time that is skipped."""
    for change in changes(policy, system.calendar, system.clock.now()):
        yield Finding(
            "schedule-hour-not-fired" if skips and change.skipped else "schedule-clock-change",
            Level.WARNING,
            f"policies.{policy.name}: {note_document(change, policy, skips=skips)['text']}",
            "nothing to do if that suits; else choose an hour that no clock change touches, or "
            'timezone = "UTC"',
        )


def _holds(system: System) -> Iterator[Finding]:
    for hold in system.holds.in_force(system.clock.now()):
        yield Finding(
            "hold-in-force", Level.INFO, f"{hold.scope} is under hold {hold}", "",
        )  # fmt: skip
