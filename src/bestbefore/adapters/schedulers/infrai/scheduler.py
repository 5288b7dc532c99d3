"""Infrai's cron as a `bestbefore.ports.scheduler.Scheduler`."""

import json
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any

from bestbefore.adapters.infrai import (
    DEFAULT_BASE_URL,
    Drift,
    InfraiClient,
    InfraiError,
    InfraiSettings,
    Use,
    Value,
    refused,
)
from bestbefore.adapters.infrai.envelope import first, items
from bestbefore.adapters.infrai.targets import place
from bestbefore.adapters.schedulers.infrai import records, uses
from bestbefore.adapters.schedulers.infrai.expression import expression
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.clock import Clock
from bestbefore.ports.scheduler import (
    EXPRESSION,
    TARGET,
    TIMEZONE,
    Capabilities,
    Deployed,
    Scheduler,
    SchedulerFailed,
    SkippedHour,
    Terms,
    VendorRun,
    Wanted,
)

_TIMEOUT_SECONDS = 60
"""For one trigger. Ours is answered within seconds; planning goes on behind the answer."""

_RETRIES = 3
_MOST_PAGES = 1_000
_MOST_CREATED = 5
_GONE = (404, 410)

CAPABILITIES = Capabilities(
    skipped_hour=SkippedHour.UNKNOWN,
    precision=timedelta(minutes=1),
    longest_run=timedelta(seconds=900),
    updates=False,
    triggers=True,
    tells_runs=True,
    tells_slot=False,
)


@dataclass(frozen=True, slots=True)
class InfraiSchedulerSettings:
    """One *group* of schedules in an account: they call *public_url* with one of our trigger
    secrets, as they can send neither headers nor signatures.

    Raises ValueError for a key, a group or an address that cannot be used.
    """

    api_key: str = field(repr=False)
    public_url: str
    trigger_secret: str = field(repr=False)
    group: str = "bestbefore"
    base_url: str = DEFAULT_BASE_URL
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        _ = self.account
        if records.BETWEEN in self.group or self.group.endswith("-"):
            raise ValueError(f'schedule.group: expected no "--" in it, found "{self.group}"')
        if not self.public_url:
            raise ValueError("serve.public_url: expected where their cron reaches us, found none")
        if not self.trigger_secret:
            raise ValueError("serve.trigger_secret: expected what their cron calls us with")

    @property
    def account(self) -> InfraiSettings:
        """Where the vendor is and who we are there."""
        return InfraiSettings(self.api_key, self.base_url, self.timeout)

    @property
    def url(self) -> str:
        """What they call: a secret."""
        return f"{self.public_url.rstrip('/')}/cleanup/plan/{self.trigger_secret}"

    @property
    def name(self) -> str:
        """What people call it."""
        return f'Infrai cron group "{self.group}" at {place(self.base_url)}'


class InfraiScheduler(Scheduler):
    """One schedule per policy. It is replaced and not changed: there is no call for that."""

    def __init__(self, settings: InfraiSchedulerSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._client = InfraiClient(settings.account, clock)

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def target(self) -> str:
        return records.veiled(self._settings.url)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def terms(self, wanted: Wanted) -> Terms:
        return {
            EXPRESSION: expression(wanted), TIMEZONE: wanted.timezone, TARGET: self.target,
        }  # fmt: skip

    def deployed(self) -> Sequence[Deployed]:
        with self._named():
            return self._deployed()

    def put(self, wanted: Wanted, instead_of: Deployed | None = None) -> Deployed:
        terms = self.terms(wanted)
        if problem := refused(self._settings.url, self._client.base_url, https=False):
            raise SchedulerFailed(Failure(FailureClass.MALFORMED, f"{self.name}: {problem}"))
        with self._named():
            there = self._deployed(wanted.policy)
            if instead_of is None and len(there) == 1 and _is(there[0], terms):
                return there[0]
            # What is there goes last: fired by both, a slot has one run all the same.
            made = self._create(wanted, terms, [one.id for one in there])
            for one in there:
                self._delete(one.id)
            return made

    def pause(self, deployed: Deployed) -> None:
        self._switch(uses.PAUSE, deployed)

    def resume(self, deployed: Deployed) -> None:
        self._switch(uses.RESUME, deployed)

    def delete(self, deployed: Deployed) -> None:
        with self._named():
            self._delete(deployed.id)

    def trigger(self, deployed: Deployed) -> None:
        with self._named():
            self._do(uses.TRIGGER, deployed.id, secrets.token_hex(16))

    def runs(self, deployed: Deployed, limit: int) -> Sequence[VendorRun]:
        with self._named():
            found = items(self._client.call(uses.RUNS, {"id": deployed.id}), "runs")
        if found is None:
            raise SchedulerFailed(self._unreadable(uses.RUNS, "a list of runs"))
        told = [run for run in map(records.run, found) if run is not None]
        return sorted(told, key=lambda run: run.at, reverse=True)[:limit]

    def findings(self) -> Sequence[Finding]:
        return list(self._findings())

    def close(self) -> None:
        self._client.close()

    # -- schedules ---------------------------------------------------------------------------

    def _deployed(self, policy: str | None = None) -> list[Deployed]:
        """All of ours, or those of one *policy*."""
        found = [self._read(record, policy) for record in self._records()]
        return sorted(
            (one for one in found if one is not None), key=lambda one: (one.policy, one.id)
        )

    def _records(self) -> Iterator[Any]:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            data = self._client.call(uses.LIST, {"cursor": cursor} if cursor else {})
            page = items(data, "crons", "jobs")
            if page is None:
                raise InfraiError(self._unreadable(uses.LIST, "a list of schedules"))
            yield from page
            # None of their papers knows pages; where there are some, all of them are ours to read.
            cursor = first(data, ("next_cursor", "cursor"))
            if not isinstance(cursor, str) or not cursor:
                return
            if "cursor" not in self._client.chosen(uses.LIST, {"cursor": cursor}).fields:
                raise InfraiError(self._unreadable(uses.LIST, "all, or a way to ask for the rest,"))

    def _read(self, record: Any, policy: str | None) -> Deployed | None:
        """The schedule in *record*, if it is ours. A list may leave out its zone."""
        group = self._settings.group
        found = records.deployed(record, group)
        if found is None or policy not in (None, found.policy):
            return None
        if found.terms.keys() >= {EXPRESSION, TIMEZONE, TARGET}:
            return found
        try:
            whole = self._client.call(uses.GET, {"id": found.id})
        except Drift:
            return found
        except InfraiError as error:
            if error.status in _GONE:
                return None
            raise
        return records.deployed({**record, **whole} if isinstance(whole, dict) else record, group)

    def _create(self, wanted: Wanted, terms: Terms, instead_of: Sequence[str]) -> Deployed:
        """Have them create it; returns it as they list it.

        The key says what it is in place of, so that going back to an earlier schedule is another
        request. Where they answer with one that is gone, as they do for a day after the same
        request, it is asked for in its place.
        """
        replaced = sorted(instead_of)
        values = self._values(wanted, terms)
        fields = self._client.chosen(uses.CREATE, values | {"key": ""}).fields
        if "timezone" not in fields and wanted.timezone != "UTC":
            raise InfraiError(
                Failure(
                    FailureClass.MALFORMED,
                    f"policies.{wanted.policy}: a schedule there has no timezone, and would fire "
                    f'in another one than {wanted.timezone}; write it in timezone = "UTC"',
                )
            )
        for _ in range(_MOST_CREATED):
            answer = self._client.call(uses.CREATE, values, key=self._key(wanted, terms, replaced))
            made = records.record_id(answer)
            if made is None:
                raise InfraiError(self._unreadable(uses.CREATE, "the id of a schedule"))
            listed = [one for one in self._deployed(wanted.policy) if one.id == made]
            if listed:
                return listed[0]
            replaced.append(made)
        raise InfraiError(
            Failure(
                FailureClass.UNKNOWN,
                f"{uses.CREATE.name}: policy {wanted.policy} was created {_MOST_CREATED} times, "
                "and is not listed; look at the schedules there",
            )
        )

    def _values(self, wanted: Wanted, terms: Terms) -> dict[str, Value | None]:
        body: dict[str, object] = {"policy": wanted.policy}
        return {
            "name": f"{self._settings.group}{records.BETWEEN}{wanted.policy}",
            "expression": terms[EXPRESSION],
            "timezone": wanted.timezone,
            "target": self._settings.url,
            "payload": body,
            "timeout": _TIMEOUT_SECONDS,
            "retries": _RETRIES,
            "overlap": "skip",
        }

    def _key(self, wanted: Wanted, terms: Terms, replaced: Sequence[str]) -> str:
        parts = [self._settings.group, wanted.policy, *sorted(terms.items()), *replaced]
        return f"bestbefore-cron-{sha256(json.dumps(parts).encode()).hexdigest()[:32]}"

    def _delete(self, known_by: str) -> None:
        try:
            self._do(uses.DELETE, known_by, f"bestbefore-delete-{known_by}")
        except InfraiError as error:
            if error.status not in _GONE:
                raise

    def _switch(self, use: Use, deployed: Deployed) -> None:
        with self._named():
            try:
                # A key of its own: paused, resumed and paused again are three effects.
                self._do(use, deployed.id, secrets.token_hex(16))
            except InfraiError as error:
                if error.status not in _GONE:
                    raise
                said = (
                    f"there is no schedule {deployed.id} any more; run `bestbefore schedule sync`"
                )
                raise InfraiError(Failure(FailureClass.MALFORMED, said), error.status) from error

    def _do(self, use: Use, known_by: str, key: str) -> None:
        self._client.call(use, {"id": known_by}, key=key)

    # -- saying ------------------------------------------------------------------------------

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except InfraiError as error:
            failure = error.failure
            raise SchedulerFailed(
                Failure(failure.failure_class, f"{self.name}: {failure.error}", failure.retry_after)
            ) from error

    def _unreadable(self, use: Use, expected: str) -> Failure:
        return Failure(
            FailureClass.UNKNOWN,
            f"{use.name}: expected {expected} in the answer, found none; compare it with the "
            "discovery document",
        )

    def _findings(self) -> Iterator[Finding]:
        if problem := refused(self._settings.url, self._client.base_url, https=False):
            yield Finding("infrai-target", Level.ERROR, f"{self.name}: {problem}", "")
        terms = {EXPRESSION: "0 2 * * *"}
        sample = self._values(Wanted("sample", "0 2 * * *", "UTC"), terms) | {"id": "1", "key": "k"}
        fits: list[str] = []
        for use in uses.ALL:
            try:
                chosen = self._client.chosen(use, sample)
                chosen.request(sample)
            except Drift as drift:
                level = Level.ERROR if use in _NEEDED else Level.WARNING
                said = f"{use.name}: expected {drift.expected}, found {drift.found}"
                yield Finding("infrai-drift", level, said, drift.remedy)
            except InfraiError as error:
                yield Finding("infrai-no-answer", Level.ERROR, f"{self.name}: {error}", "")
                return
            else:
                fits.append(use.name)
                yield from self._misses(use, chosen.fields.keys())
        if fits:
            said = f"{self.name}: requests fit the discovered schemas of {', '.join(fits)}"
            yield Finding("infrai-discovery-fits", Level.INFO, said, "")

    def _misses(self, use: Use, fields: Collection[str]) -> Iterator[Finding]:
        if use is uses.CREATE and "timezone" not in fields:
            yield Finding(
                "infrai-no-timezone",
                Level.WARNING,
                f"{self.name}: a schedule there has no timezone",
                'set timezone = "UTC" for every policy, and see when it fires',
            )


_NEEDED: Sequence[Use] = (uses.CREATE, uses.LIST, uses.DELETE)


def _is(deployed: Deployed, terms: Terms) -> bool:
    """Whether *deployed* fires, and by *terms*, as far as it shows them."""
    return deployed.enabled and all(
        terms.get(name) == value for name, value in deployed.terms.items()
    )


def connect(settings: InfraiSchedulerSettings, clock: Clock | None = None) -> InfraiScheduler:
    """The schedules of one group; nothing is sent before it is used."""
    return InfraiScheduler(settings, clock)
