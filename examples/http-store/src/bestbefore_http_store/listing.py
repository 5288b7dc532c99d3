"""The looking side: pages of a container, and single objects by HEAD."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import httpx

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import BucketFacts, KeyRange, Page, StoreError
from bestbefore_http_store.api import Api, container, date, etag, item

_MOST = 1_000


class HttpLister:
    """An `ObjectLister`. The API lists a container by key, from any key on, but cannot say where a
    half of it begins: there is one range."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def describe(self, bucket: str) -> BucketFacts:
        answer = self._list(bucket, {"limit": "1"})
        return BucketFacts(self._api.place, None, date(answer, "Date"))

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:  # noqa: ARG002
        self.describe(bucket)
        return [KeyRange(None, None)]

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        query = {"prefix": prefix, "limit": str(_MOST)}
        if keys.after is not None:
            query["after"] = keys.after
        what = f"GET {self._api.place}{container(bucket)}"
        try:
            answer = self._list(bucket, query).json()
            items = [_listed(one, what) for one in answer["items"]]
            more = answer["more"]
        except (ValueError, TypeError, KeyError) as error:
            raise _odd(what, f"{type(error).__name__}: {error}") from error
        order = ["" if keys.after is None else keys.after, *(one.key for one in items)]
        if any(one >= following for one, following in pairwise(order)):
            raise _odd(what, "keys are not in order, or not after the one that was asked for")
        if more and not items:
            raise _odd(what, "it says that there is more, and lists nothing")
        within = [one for one in items if keys.until is None or one.key <= keys.until]
        if not more or len(within) < len(items):
            return Page(within, None)
        return Page(within, KeyRange(within[-1].key, keys.until))

    def uploads(self, bucket: str, prefix: str, keys: KeyRange) -> Page:  # noqa: ARG002
        """A PUT is whole or nothing here."""
        return Page([], None)

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        found = dict(zip(keys, self._api.each(partial(self.head, bucket), keys), strict=True))
        if None in found.values():
            self.describe(bucket)  # nothing under a key is only that where there is a container
        return found

    def head(self, bucket: str, key: str) -> Listed | Failure | None:
        """The object *key* as it is now; None where there is nothing, of the container neither."""
        try:
            path = item(bucket, key)
            answer = self._api.call("HEAD", path, good=(200, 404))
            if answer.status_code == 404:
                return None
            return _headed(key, answer, f"HEAD {self._api.place}{path}")
        except StoreError as error:
            return error.failure

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        """There are none, and what cannot be asked is no empty answer."""
        said = f"{self._api.place}{container(bucket)}: this API has no tags"
        return dict.fromkeys(keys, Failure(FailureClass.MALFORMED, said))

    def content(self, bucket: str, key: str, most: int) -> bytes | None:
        path, found = item(bucket, key), b""
        part = {"Range": f"bytes=0-{most - 1}"}
        # 416: of nothing there is no first byte. 200: the whole, to be read only so far.
        with self._api.open("GET", path, good=(200, 206, 404, 416), headers=part) as answer:
            if answer.status_code == 404:
                self.describe(bucket)
                return None
            if answer.status_code == 416:
                return b""
            try:
                for piece in answer.iter_bytes():
                    found += piece
                    if len(found) >= most:
                        break
            except (httpx.TransportError, httpx.DecodingError) as error:
                said = f"GET {self._api.place}{path}: {type(error).__name__}: {error}"
                raise StoreError(Failure(FailureClass.TRANSIENT, said)) from error
        return found[:most]

    def _list(self, bucket: str, query: Mapping[str, str]) -> httpx.Response:
        path = container(bucket)
        answer = self._api.call("GET", path, good=(200, 404), query=query)
        if answer.status_code == 404:
            said = f"{self._api.place}{path}: there is no such container"
            raise StoreError(Failure(FailureClass.MALFORMED, said, whole_source=True))
        return answer


def _listed(one: Mapping[str, Any], what: str) -> Listed:
    key, size = one["key"], one["size"]
    if not isinstance(key, str) or not isinstance(size, int):
        raise TypeError("expected a text as key and a number as size")
    moment = datetime.fromisoformat(one["last_modified"])
    if moment.tzinfo is None:
        raise ValueError(f"last_modified of {key!r} has no zone")
    return Listed(key, size, etag(one["etag"], what), moment.astimezone(UTC))


def _headed(key: str, answer: httpx.Response, what: str) -> Listed:
    modified = date(answer, "Last-Modified")
    size = answer.headers.get("Content-Length", "")
    if modified is None or not size.isdigit():
        raise _odd(what, "expected Last-Modified and Content-Length")
    return Listed(key, int(size), etag(answer.headers.get("ETag"), what), modified)


def _odd(what: str, said: str) -> StoreError:
    """An answer that nothing can be planned with."""
    return StoreError(Failure(FailureClass.MALFORMED, f"{what}: {said}"))
