"""One call at a time, and what an answer means in bestbefore's words.

Vendors' errors do not leave an adapter: whatever goes wrong here is a `StoreError`, whose failure
says whether to wait, to try again or to stop.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote

import httpx

from bestbefore.domain.failure import Failure, FailureClass, parse_retry_after
from bestbefore.domain.selection import impossible
from bestbefore.ports.objects import StoreError
from bestbefore_http_store.options import Options

CLASSES: Mapping[int, FailureClass] = {
    401: FailureClass.CREDENTIALS,
    403: FailureClass.PERMISSION,
    408: FailureClass.TRANSIENT,
    409: FailureClass.TRANSIENT,
    423: FailureClass.TRANSIENT,
    425: FailureClass.TRANSIENT,
    429: FailureClass.THROTTLED,
}
"""What is not said here: other 4xx are malformed, all 5xx transient, anything else is unknown. A
redirect is another place, and so the whole source is malformed."""

T = TypeVar("T")
R = TypeVar("R")


class Api:
    """Calls below one address, for any number of threads. Makes one try each."""

    def __init__(self, options: Options) -> None:
        self.place = options.url.rstrip("/")
        self._client = httpx.Client(
            timeout=options.timeout,
            headers={"Authorization": f"Bearer {options.token}"} if options.token else {},
            limits=httpx.Limits(max_connections=options.connections),
            follow_redirects=False,  # another place is another store
        )
        self._threads = ThreadPoolExecutor(options.connections, "http-store")

    def call(
        self,
        method: str,
        path: str,
        *,
        good: Iterable[int],
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer, if its status is one of those *good*; else raises StoreError."""
        with self.open(method, path, good=good, query=query, headers=headers) as answer:
            _read(answer, f"{method} {self.place}{path}")
            return answer

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        good: Iterable[int],
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """As `call`, with a body that is still to be read."""
        what = f"{method} {self.place}{path}"
        request = self._client.build_request(
            method, self.place + path, params=query, headers=headers
        )
        try:
            answer = self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise StoreError(_no_answer(what, error)) from error
        try:
            if answer.status_code not in good:
                raise StoreError(_refusal(what, answer))
            yield answer
        finally:
            answer.close()

    def close(self) -> None:
        """End every connection."""
        self._threads.shutdown()
        self._client.close()

    def each(self, do: Callable[[T], R], about: Iterable[T]) -> list[R]:
        """What *do* makes of each, some at a time. It does not raise."""
        return list(self._threads.map(do, about))


def container(bucket: str) -> str:
    """The path of a bucket."""
    return f"/{quote(bucket, safe='')}"


def item(bucket: str, key: str) -> str:
    """The path of an object; raises StoreError where no path can name it.

    Clients, proxies and servers resolve ``.`` and ``..`` and merge ``//``: that would be the path
    of something else.
    """
    problem = impossible(key)
    if problem is None and not {"", ".", ".."}.isdisjoint(key.split("/")):
        problem = 'a path with an empty part, "." or ".." may be read as another one'
    if problem is not None:
        raise StoreError(Failure(FailureClass.MALFORMED, f"{bucket}/{key}: {problem}"))
    return f"{container(bucket)}/{quote(key, safe='/')}"


def date(answer: httpx.Response, header: str) -> datetime | None:
    """The HTTP date in *header*, in UTC; None without one."""
    try:
        found = parsedate_to_datetime(answer.headers[header])
    except (KeyError, ValueError):
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)


def etag(written: str | None, what: str) -> str:
    """An ETag without its quotes. A weak one says nothing about bytes and is refused, as is none:
    what was seen could not be told from what came later."""
    if written is None or len(written) < 3 or written[0] != '"' or written[-1] != '"':
        raise StoreError(
            Failure(FailureClass.MALFORMED, f"{what}: expected a strong ETag in quotes")
        )
    return written[1:-1]


def _read(answer: httpx.Response, what: str) -> None:
    try:
        answer.read()
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise StoreError(_no_answer(what, error)) from error


def _no_answer(what: str, error: Exception) -> Failure:
    return Failure(FailureClass.TRANSIENT, f"{what}: {type(error).__name__}: {error}")


def _refusal(what: str, answer: httpx.Response) -> Failure:
    status = answer.status_code
    kind, wait = CLASSES.get(status), None
    if status in (429, 503):
        wait = parse_retry_after(answer.headers.get("Retry-After"), datetime.now(UTC))
    if kind is None and 300 <= status < 500:
        kind = FailureClass.MALFORMED
    elif kind is None:
        kind = FailureClass.TRANSIENT if status >= 500 else FailureClass.UNKNOWN
    said = f"{what}: {status} {answer.reason_phrase}"
    return Failure(kind, said, wait, whole_source=300 <= status < 400)
