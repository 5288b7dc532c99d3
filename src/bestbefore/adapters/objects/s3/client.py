"""One connection to an S3 endpoint, and everything botocore is asked to do or to leave alone."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from hashlib import md5
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.handlers import set_list_objects_encoding_type_url
from botocore.loaders import Loader, create_loader
from botocore.session import Session

from bestbefore.adapters.botocore_errors import NO_CLIENT_ERRORS, no_client
from bestbefore.adapters.objects.s3.crew import Crew
from bestbefore.adapters.objects.s3.dialect import Dialect
from bestbefore.adapters.objects.s3.errors import (
    MISSING_MD5,
    SENT_AGAIN,
    RequestFailed,
    request_failed,
)
from bestbefore.adapters.objects.s3.traits import Capability, Traits
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.objects import StoreError

MOST_CONNECTIONS = 64
_BODY = "BestbeforeBody"
_READ_HERE = ("ListObjectsV2", "ListObjectVersions", "DeleteObjects")
"""Operations whose successful answers we parse ourselves; errors stay botocore's."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where a store is and who we are there.

    Without ``endpoint_url`` it is AWS; without keys boto3's own credential chain decides. An
    endpoint of one's own is addressed by path, as few have a host name per bucket.
    """

    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=30)


class Reply(NamedTuple):
    """A successful answer. ``body`` is empty where botocore read it into ``fields``."""

    body: bytes
    fields: Mapping[str, Any]
    headers: Mapping[str, str]


class Connection:
    """Sends requests to one endpoint, from any number of threads, and learns its dialect and
    traits.

    No request is repeated but a skewed one, or one that lacked a header: retries are the ledger's
    business.
    """

    def __init__(self, client: Any, clock: Clock, memory: EndpointMemory | None = None) -> None:
        self.clock = clock
        self._client = client
        self.dialect = Dialect()
        self.traits = Traits(self.endpoint, clock, memory)
        self.crew = Crew()
        for operation in _READ_HERE:
            # With the wildcard, handlers come before all of botocore's own.
            self.events.register_first(f"before-parse.*.{operation}", _take_answer)
        self.events.register_last("before-parameter-build.s3", _stay_here)
        self.events.register_first("before-parameter-build.s3.DeleteObjects", _set_body_aside)
        self.events.register_first("before-call.s3.DeleteObjects", self._send_body)
        # We say ourselves whether keys shall be encoded.
        self.events.unregister(
            "before-parameter-build.s3.ListObjectsV2", set_list_objects_encoding_type_url
        )

    @property
    def endpoint(self) -> str:
        """The endpoint's URL without user and password."""
        parts = urlsplit(self._client.meta.endpoint_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def events(self) -> Any:
        """Botocore's hooks around every request of this connection."""
        return self._client.meta.events

    def call(self, operation: str, target: str, **params: object) -> Reply:
        """Send one request about *target*, which its errors name. Raises RequestFailed.

        *params* are boto3's, except that ``Delete`` is the document that `wire.deletion` wrote.
        """
        try:
            return self.call_once(operation, target, **params)
        except RequestFailed as failed:
            if failed.code not in SENT_AGAIN:
                raise
        # A request that waited too long between its signature and its arrival looks like a wrong
        # clock. Signed anew, at this moment, it does not. One that lacked a header has it now.
        return self.call_once(operation, target, **params)

    def call_once(self, operation: str, target: str, **params: object) -> Reply:
        """The same, for what must not be sent again as it is: skewed, it fails too."""
        try:
            return self._send(operation, params)
        except (BotoCoreError, ClientError) as error:
            failed = request_failed(error, target, self.clock.now())
            if failed.code == MISSING_MD5 and not self.traits.sends_md5:
                self.traits.learn(Capability.CONTENT_MD5, "required")
            raise failed from error

    def _send(self, operation: str, params: Mapping[str, object]) -> Reply:
        fields = getattr(self._client, xform_name(operation))(**params)
        headers = fields["ResponseMetadata"]["HTTPHeaders"]
        if self.traits.heard(headers.get("server", "")):
            self.dialect.expect(self.traits.store)
        return Reply(fields.pop(_BODY, b""), fields, headers)

    def _send_body(self, params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        """Put the finished document in place, before it is hashed and signed."""
        params["body"] = body = context[_BODY]
        if self.traits.sends_md5:
            digest = md5(body, usedforsecurity=False).digest()
            params["headers"]["Content-MD5"] = b64encode(digest).decode()


def connect(settings: S3Settings, clock: Clock, memory: EndpointMemory | None = None) -> Connection:
    """A connection as *settings* say. Sends nothing yet.

    The lister and the deleter of one store share it with advantage: sockets, and what was
    learnt about the endpoint, which *memory* keeps for other processes.
    """
    return Connection(plain_client(settings), clock, memory)


def plain_client(settings: S3Settings) -> Any:
    """A botocore client as *settings* say, with everything off that would act on its own.

    Raises StoreError where the environment gives it nothing to work with.
    """
    session = Session()  # not boto3's default one, which is global and not made for threads
    session.register_component("data_loader", _models())
    if settings.access_key_id is not None:
        session.set_credentials(settings.access_key_id, settings.secret_access_key or "")
    seconds = settings.timeout.total_seconds()
    own = settings.endpoint_url is not None
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=seconds,
        read_timeout=seconds,
        max_pool_connections=MOST_CONNECTIONS,
        # Keys are judged by `impossible`, and the other parameters are ours.
        parameter_validation=False,
        # Acceleration is an address of AWS's, whatever somebody's file says.
        s3={"addressing_style": "path", "use_accelerate_endpoint": False} if own else None,
    )
    try:
        return session.create_client(
            "s3",
            region_name=settings.region or ("us-east-1" if own else None),
            endpoint_url=settings.endpoint_url,
            config=config,
        )
    except NO_CLIENT_ERRORS as error:
        raise StoreError(no_client(error, "no client for S3")) from error


@cache
def _models() -> Loader:
    """Botocore's descriptions of services: read once, as that takes longer than all the rest."""
    return create_loader()


def _take_answer(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Keep a successful body for our own parser and show botocore none.

    Botocore spends four fifths of a listing's time on timestamps, takes an empty body for an
    empty answer, and parses everything twice to look for errors in a success.
    """
    if response_dict["status_code"] == 200:
        customized_response_dict[_BODY] = response_dict["body"]
        response_dict["body"] = b""


def _set_body_aside(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Let botocore serialize nothing: our callers give ``Delete`` as the finished document."""
    context[_BODY] = params["Delete"]
    params["Delete"] = {}


def _stay_here(context: dict[str, Any], **_: object) -> None:
    """Keep botocore from following a redirect to another region by itself.

    A bucket that is elsewhere is a wrong configuration, or a stranger's bucket. Botocore follows
    once per request; this says that it already has.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True
