"""Where the queue is, as it is configured, and what people call it."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

_HEARTBEAT_SECONDS = 20
_LONGEST_NAME = 255
_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True)
class RabbitSettings:
    """Which queue, on which RabbitMQ.

    ``url`` is ``amqp://`` or ``amqps://`` with user, password and virtual host (``/`` is written
    ``%2F``). ``dead_letter_queue`` is called after the queue unless it is given. ``declare`` has
    queues created that are missing; what is there is never changed.
    """

    url: str = field(repr=False)
    queue: str = "bestbefore"
    dead_letter_queue: str | None = None
    declare: bool = True

    def __post_init__(self) -> None:
        if _place(self.url) is None:
            raise ValueError(
                "queue.url: expected amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://… (what is "
                "no letter or digit in a password is written as %XX)"
            )
        for key, name in ("queue", self.queue), ("dead_letter_queue", self.dead_letters):
            if not 0 < len(name.encode()) <= _LONGEST_NAME or name.startswith("amq."):
                raise ValueError(
                    f"queue.{key}: expected a name of 1 to {_LONGEST_NAME} bytes that does not "
                    f"begin with 'amq.', found {name!r}"
                )
        if self.dead_letters == self.queue:
            raise ValueError(
                f"queue.dead_letter_queue: expected another queue than {self.queue!r} itself"
            )

    @property
    def dead_letters(self) -> str:
        """The name of the queue for dead letters."""
        return self.dead_letter_queue or f"{self.queue}.dead"

    @property
    def server(self) -> str:
        """The broker and its virtual host, as people may see them."""
        return str(_place(self.url))

    def called(self, queue: str) -> str:
        """What people call *queue*."""
        return f"RabbitMQ queue {queue!r} at {self.server}"

    def url_for(self, purpose: str) -> str:
        """The URL to connect to, for a connection that is shown with its *purpose* at the broker.
        Holds the password."""
        parts = urlsplit(self.url)
        query = {"heartbeat": str(_HEARTBEAT_SECONDS)} | dict(parse_qsl(parts.query))
        query["name"] = f"bestbefore-{purpose}"
        return urlunsplit(parts._replace(path=parts.path or "/", query=urlencode(query)))


def _place(url: str) -> str | None:
    """*url* without user, password and parameters; None if it is none of a broker."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    shown = f"[{host}]" if ":" in host else host
    vhost = unquote(parts.path.removeprefix("/")) or "/"
    return f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]} (virtual host {vhost!r})"
