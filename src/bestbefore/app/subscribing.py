"""Have a queue push its commands to `serve`, where one can."""

from bestbefore.app.brokers import values_of
from bestbefore.app.settings import Settings
from bestbefore.ports.ledger import LedgerError
from bestbefore.read.documents import Document

PUSH = "/v1/push"


def subscribed(settings: Settings) -> Document:
    """Ask for that; once more is the same. Raises LedgerError, saying what is missing."""
    kind, serve = settings.queue.kind, settings.serve
    if kind != "infrai":
        raise LedgerError(
            f'queue subscribe: [queue] kind = "{kind}" pushes nothing; `bestbefore work` pulls'
        )
    if serve.public_url is None:
        raise LedgerError("serve.public_url: expected where the queue reaches us, found none")
    if not serve.hmac_keys:
        raise LedgerError("serve.hmac_secret: expected what pushes are signed with, found none")
    try:
        secret = serve.hmac_keys[0].decode("ascii")
    except UnicodeDecodeError:
        raise LedgerError(
            "serve.hmac_secret: the queue takes a text; write one without whsec_"
        ) from None
    # Imported here: the vendor's client is an extra.
    try:
        from bestbefore.adapters.infrai import InfraiError
        from bestbefore.adapters.queues import infrai
    except ImportError as error:
        said = f'a queue of kind "{kind}" needs {error.name}: pip install "bestbefore[infrai]"'
        raise LedgerError(said) from error
    url = f"{serve.public_url}{PUSH}"
    try:
        there = infrai.InfraiQueueSettings(**values_of(settings))
        known_by = infrai.push_to(there, url, secret)
    except (InfraiError, ValueError) as error:
        raise LedgerError(str(error)) from error
    return {"queue": there.queue, "url": url, "subscription": known_by}
