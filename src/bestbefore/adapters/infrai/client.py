"""The one way to call Infrai: what its discovery says, with our key, as often as is right.

Nothing about a request is guessed: method, path and fields are those of the capability's discovery
document, read once per process without a key, and a request is validated before it is sent.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from bestbefore.adapters.infrai import envelope
from bestbefore.adapters.infrai.capability import Capability, Unfit, parse
from bestbefore.adapters.infrai.errors import Drift, InfraiError, no_answer, refusal
from bestbefore.adapters.infrai.shapes import Chosen, Request, Use, Value, choose
from bestbefore.adapters.infrai.targets import DEFAULT_BASE_URL, base_url_problem, place
from bestbefore.domain.failure import Failure, FailureClass, pause
from bestbefore.ports.clock import Clock

CONTROL_TRIES = 5
"""For whatever is asked by a person or once per process. Messages are tried once: the ledger has
them tried again."""

_MOST_CONNECTIONS = 32


class _SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class InfraiSettings:
    """Where the vendor is and who we are there. ``base_url`` ends in the version, as ``…/v1``.

    Raises ValueError for an address or a key that cannot be used; what is wrong with a key is said
    without it.
    """

    api_key: str = field(repr=False)
    base_url: str = DEFAULT_BASE_URL
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if problem := base_url_problem(self.base_url):
            raise ValueError(f"infrai.base_url: {problem}")
        if not self.api_key:
            raise ValueError("infrai.api_key: expected the key of an account; set api_key_env")
        if not all("!" <= char <= "~" for char in self.api_key):
            raise ValueError("infrai.api_key: it has a character that no header carries")


class InfraiClient:
    """Calls capabilities, from any number of threads."""

    def __init__(
        self,
        settings: InfraiSettings,
        clock: Clock | None = None,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self.base_url = settings.base_url.rstrip("/")
        self.place = place(self.base_url)
        self._key = settings.api_key
        self._root = self.base_url.removesuffix("/v1")
        self._clock = clock or _SystemClock()
        self._spread = spread
        try:
            self._http = httpx.Client(
                timeout=httpx.Timeout(settings.timeout.total_seconds(), connect=10),
                limits=httpx.Limits(
                    max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS
                ),
                headers={"Accept": "application/json", "User-Agent": "bestbefore"},
            )
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            # Without its text: a proxy's URL holds a password.
            raise ValueError(
                f"infrai: {type(error).__name__}; look at the variables of this process for "
                "proxies (HTTP_PROXY, ALL_PROXY, NO_PROXY) and certificates (SSL_CERT_FILE)"
            ) from error
        self._lock = threading.Lock()
        self._known: dict[str, Capability] = {}
        self._chosen: dict[tuple[str, frozenset[str]], Chosen] = {}

    def close(self) -> None:
        """End every connection."""
        self._http.close()

    def discover(self, name: str, tries: int = CONTROL_TRIES) -> Capability:
        """The capability *name*, from this process's memory or from the vendor, without a key.

        Raises InfraiError; Drift where what is there describes no capability.
        """
        if (known := self._known.get(name)) is not None:
            return known
        url = f"{self.base_url}/discovery/{name}"

        def ask() -> Any:
            response = self._send(f"discovery of {name}", "GET", url, {}, None)
            # Discovery documents stand alone; one in an envelope is read all the same.
            return self._answered(f"discovery of {name}", response)

        try:
            document = self._persistently(ask, tries, repeatable=True)
        except InfraiError as error:
            if error.status == 404:
                raise Drift(name, "a capability of that name", "none", f"look at {url}") from None
            raise
        try:
            found = parse(name, document)
        except Unfit as error:
            raise Drift(
                name,
                "a discovery document with method, path and params",
                str(error),
                f"look at {url}",
            ) from None
        if found.available:
            with self._lock:
                self._known[name] = found
        return found

    def chosen(
        self, use: Use, values: Mapping[str, Value | None], tries: int = CONTROL_TRIES
    ) -> Chosen:
        """The form in which *use* takes *values*, as discovery has it. Raises InfraiError."""
        at = (use.name, frozenset(name for name, value in values.items() if value is not None))
        if (known := self._chosen.get(at)) is None:
            known = choose(use, self.discover(use.name, tries), values)
            with self._lock:
                self._chosen[at] = known
        return known

    def call(
        self,
        use: Use,
        values: Mapping[str, Value | None],
        *,
        key: str | None = None,
        tries: int = CONTROL_TRIES,
    ) -> Any:
        """Have *use* done with *values*; returns the ``data`` of the answer.

        *key* names the effect, and is the same whenever that is tried again: the vendor does it
        once a day. It goes along where discovery says so. Raises InfraiError.
        """
        values = dict(values) | {"key": key}
        chosen = self.chosen(use, values, tries)
        request = chosen.request(values)
        sent_key = key if chosen.capability.idempotent else None
        safe = request.method == "GET" or sent_key is not None
        what = f"{use.name} at {self.place}"
        headers = {"Authorization": f"Bearer {self._key}"}
        if sent_key is not None:
            headers["Idempotency-Key"] = sent_key

        def ask() -> Any:
            response = self._send(what, request.method, self._root + request.path, headers, request)
            return self._answered(what, response)

        return self._persistently(ask, tries, repeatable=safe)

    def _persistently(self, ask: Callable[[], Any], tries: int, *, repeatable: bool) -> Any:
        """What *ask* returns, in at most *tries*. Only what was surely not done, or may be done
        twice, is asked again."""
        for n in range(1, tries + 1):
            try:
                return ask()
            except InfraiError as error:
                match error.failure.failure_class:
                    case FailureClass.THROTTLED:
                        again = True
                    case FailureClass.TRANSIENT:
                        again = repeatable
                    case _:
                        again = False
                if not again or n == tries:
                    raise self._after(error, n) from error.__cause__
                self._clock.sleep(pause(error.failure, n, self._spread).total_seconds())
        raise AssertionError(tries)

    def _after(self, error: InfraiError, tries: int) -> InfraiError:
        if tries == 1:
            return error
        failure = error.failure
        said = Failure(
            failure.failure_class, f"{failure.error} (given up after {tries} tries)",
            failure.retry_after,
        )  # fmt: skip
        return InfraiError(said, error.status, error.code, decisive=error.decisive)

    def _send(
        self,
        what: str,
        method: str,
        url: str,
        headers: Mapping[str, str],
        request: Request | None,
    ) -> httpx.Response:
        content, query = None, None
        headers = dict(headers)
        if request is not None and request.fields:
            if method == "GET":
                query = {name: _text(value) for name, value in request.fields.items()}
            else:
                content = json.dumps(request.fields, separators=(",", ":")).encode("ascii")
        if method != "GET":
            content = content or b"{}"
            headers["Content-Type"] = "application/json"
        try:
            return self._http.request(method, url, headers=headers, params=query, content=content)
        except (httpx.HTTPError, httpx.StreamError) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise no_answer(what, self._hidden(why)) from error

    def _answered(self, what: str, response: httpx.Response) -> Any:
        """The data in *response*. The body first: what they refuse is in an envelope as well."""
        status, after = response.status_code, response.headers.get("retry-after")
        now = self._clock.now()
        if status == 204:
            return None
        try:
            answer = envelope.read(response.content)
        except ValueError:
            if status == 429:  # of whatever stands before them
                raise refusal(what, status, "too many requests", after, now) from None
            kind = response.headers.get("content-type", "nothing").partition(";")[0]
            raise no_answer(
                what, f"status {status} with {kind} instead of JSON; is {self.place} their API?"
            ) from None
        if answer.ok and 200 <= status < 300:
            return answer.data
        said = answer.error or envelope.first(answer.data, ["error"]) or answer.data
        raise refusal(what, status, self._without_key(said), after, now)

    def _without_key(self, said: Any) -> Any:
        """What they say may repeat our key."""
        if isinstance(said, Mapping):
            return {name: self._hidden(str(value)) for name, value in said.items() if value}
        return self._hidden(str(said))

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "[key]")


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
