"""One connection to SQS, and everything botocore is asked to do or to leave alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader, create_loader
from botocore.session import Session

from bestbefore.adapters.botocore_errors import NO_CLIENT_ERRORS, no_client
from bestbefore.adapters.queues.sqs.crew import SIZE, Crew
from bestbefore.adapters.queues.sqs.errors import call_failed
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.ports.transport import TransportFailed

_SOMEWHERE = "us-east-1"
"""What requests are signed for where neither the URL nor the settings name a region."""

_LONGEST_POLL = 20
"""Seconds that SQS waits for a message, at most."""


@dataclass(frozen=True, slots=True, repr=False)
class SqsSettings:
    """Where a queue is, and who we are there.

    Without ``dead_letter_url`` the queue's own redrive policy says where its dead letters are;
    without ``region`` and ``endpoint_url`` its URL does that, and without keys boto3's own
    credential chain decides. ``timeout`` is for a connection, and for an answer. Raises ValueError
    for what is no address of a queue.
    """

    queue_url: str
    dead_letter_url: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        _ = self.place, self.dead_letters

    @property
    def place(self) -> Place:
        """Where the queue is."""
        return Place.of(self.queue_url, "queue_url")

    @property
    def dead_letters(self) -> Place | None:
        """Where its dead letters are, as far as anybody said."""
        given = self.dead_letter_url
        return None if given is None else Place.of(given, "dead_letter_url")

    def __repr__(self) -> str:
        return f"SqsSettings({_without_user(self.queue_url)})"


class Connection:
    """Sends requests about queues, from any number of threads. Repeats none: that is the ledger's
    business."""

    def __init__(self, settings: SqsSettings) -> None:
        place = settings.place
        self.region = settings.region or place.region or _SOMEWHERE
        self.longest_poll = max(1, min(_LONGEST_POLL, int(settings.timeout.total_seconds() / 2)))
        self.crew = Crew()
        self._client = _client(settings, place, self.region)

    def call(self, operation: str, place: Place, **params: object) -> Mapping[str, Any]:
        """Send one request about the queue at *place*; *params* are boto3's. Raises CallFailed."""
        return self._sent(operation, place, QueueUrl=place.url, **params)

    def create(self, place: Place, attributes: Mapping[str, str]) -> Place:
        """Create the queue of the name at *place*, in the account that these credentials are of;
        returns where it is. Raises CallFailed."""
        answer = self._sent(
            "CreateQueue", place, QueueName=place.queue, Attributes=dict(attributes)
        )
        return Place.of(str(answer.get("QueueUrl")), "QueueUrl")

    def _sent(self, operation: str, place: Place, **params: object) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = getattr(self._client, xform_name(operation))(**params)
        except (BotoCoreError, ClientError) as error:
            raise call_failed(error, place.name, self.region) from error
        return answer

    def close(self) -> None:
        """Let what runs end, and close every socket."""
        self.crew.close()
        self._client.close()


def _client(settings: SqsSettings, place: Place, region: str) -> Any:
    """A botocore client as *settings* say, with everything off that would act on its own.

    Raises TransportFailed where the environment gives it nothing to work with.
    """
    session = Session()  # not boto3's default one, which is global and not made for threads
    session.register_component("data_loader", _models())
    if settings.access_key_id is not None:
        session.set_credentials(settings.access_key_id, settings.secret_access_key or "")
    seconds = settings.timeout.total_seconds()
    endpoint = settings.endpoint_url
    try:
        return session.create_client(
            "sqs",
            region_name=region,
            endpoint_url=_without_user(endpoint) if endpoint else place.endpoint,
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=seconds,
                read_timeout=seconds,
                max_pool_connections=4 * SIZE,  # callers have threads of their own besides
                parameter_validation=False,  # the parameters are ours
            ),
        )
    except NO_CLIENT_ERRORS as error:
        raise TransportFailed(no_client(error, f"queue {place.name}")) from error


def _without_user(url: str) -> str:
    """*url* without the user and password that SQS has no use for, and errors would show."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


@cache
def _models() -> Loader:
    """Botocore's descriptions of services: read once, as that takes longer than all the rest."""
    return create_loader()
