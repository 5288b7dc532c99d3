"""What one endpoint was found to do and not to do, and for how long that is believed.

What it does *not* do is kept for `KEPT`, also for other processes: being wrong about it costs
speed. That it honours conditions is what deletes rely on, so a process finds that out for itself
and again every `TRUSTED`: two requests about a key that does not exist. An endpoint that calls
itself something else than before is another one, and nothing of it is known.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from bestbefore.adapters.objects.s3.stores import KnownStore, known
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory, Learnt

KEPT = timedelta(days=7)
TRUSTED = timedelta(hours=1)
MOST_KEYS = 1_000


class Capability(StrEnum):
    """What is asked about an endpoint."""

    MULTI_CONDITIONS = "conditions of DeleteObjects"
    SINGLE_CONDITIONS = "conditions of DeleteObject"
    CONTENT_MD5 = "content_md5"
    BATCH_LIMIT = "batch_limit"
    URL_ENCODING = "url_encoding"


class Traits:
    """Findings about one endpoint, for any number of threads, which may find the same twice."""

    def __init__(self, endpoint: str, clock: Clock, memory: EndpointMemory | None) -> None:
        self._endpoint = endpoint
        self._host = urlsplit(endpoint).hostname or ""
        self._clock = clock
        self._memory = memory
        self._server = ""
        self._found: Mapping[tuple[str, str], tuple[Learnt, timedelta]] | None = None
        self._too_many: int | None = None
        self.store = known(self._host, "")

    def heard(self, server: str) -> bool:
        """Take note of a ``Server`` header. Returns whether it is a new one."""
        if server == self._server or not server:
            return False
        self._server = server
        self.store = known(self._host, server)
        findings = self._all()
        same = {key: one for key, one in findings.items() if one[0].server in ("", server)}
        if len(same) < len(findings):
            self._forget(same)
        return True

    def found(self, capability: Capability, bucket: str = "") -> Learnt | None:
        """What was found about *capability*, if that can still be believed."""
        one = self._all().get((bucket, capability))
        if one is None or self._clock.now() - one[0].learnt_at >= one[1]:
            return None
        return one[0]

    def learn(
        self, capability: Capability, value: str, bucket: str = "", *, keep: bool = True
    ) -> None:
        """Note a finding, and with *keep* for other processes as well.

        One that is not kept and takes the place of one that was: the endpoint got better, so
        nothing that is kept of it can be believed any more.
        """
        before = self._all().get((bucket, capability))
        if not keep and before is not None and before[1] == KEPT:
            self._forget({})
        learnt = Learnt(bucket, capability, value, self._server, self._clock.now())
        shelf = KEPT if keep else TRUSTED
        self._found = {**self._all(), (bucket, capability): (learnt, shelf)}
        if keep and self._memory is not None:
            self._memory.remember(self._endpoint, learnt)

    @property
    def sends_md5(self) -> bool:
        """Whether DeleteObjects goes with Content-MD5 beside the checksum it has anyway."""
        guess = self.store is not None and self.store.content_md5
        return guess or self.found(Capability.CONTENT_MD5) is not None

    @property
    def batch_limit(self) -> int:
        """How many keys one DeleteObjects may hold."""
        found = self.found(Capability.BATCH_LIMIT)
        if found is not None:
            return max(1, int(found.value))
        return (self.store.batch_limit if self.store else None) or MOST_KEYS

    def took(self, keys: int) -> None:
        """A DeleteObjects of so many keys was carried out."""
        if self._too_many is not None and keys >= self._too_many:
            self._too_many = None

    def refused_together(self, keys: int) -> None:
        """A DeleteObjects of so many keys was refused, and either half of it was not.

        If it happens again, to as many at least and with nothing as large carried out in between,
        it is a limit.
        """
        before, self._too_many = self._too_many, keys
        if before is not None and keys >= before:
            self.learn(Capability.BATCH_LIMIT, str(before - before // 2))

    def _forget(self, but: Mapping[tuple[str, str], tuple[Learnt, timedelta]]) -> None:
        self._found = but
        if self._memory is not None:
            self._memory.forget(self._endpoint)

    def _all(self) -> Mapping[tuple[str, str], tuple[Learnt, timedelta]]:
        if self._found is None:
            since = self._clock.now() - KEPT
            rows = self._memory.recall(self._endpoint, since) if self._memory else ()
            self._found = {(one.bucket, one.capability): (one, KEPT) for one in rows}
        return self._found


def looks_like(store: KnownStore | None) -> str:
    """Words for what an endpoint looks like."""
    return "no store we know" if store is None else store.name
