"""What a failure class means to whoever has to do something about it; at length in
``docs/failures.md``."""

from collections.abc import Mapping
from typing import NamedTuple

from bestbefore.domain.failure import FailureClass


class Explained(NamedTuple):
    """What it is, and what to do."""

    meaning: str
    remedy: str


EXPLAINED: Mapping[FailureClass, Explained] = {
    FailureClass.THROTTLED: Explained(
        "The store or database asked to slow down, for 24 hours.",
        "Lower the concurrency or raise its limits, then redrive with a rate.",
    ),
    FailureClass.TRANSIENT: Explained(
        "Timeouts, lost connections, 5xx, deadlocks: each time something that passes, until the "
        "attempts were spent.",
        "See whether the store or database is well again, then redrive.",
    ),
    FailureClass.CREDENTIALS: Explained(
        "The keys, the signature or the login were refused for 7 days.",
        "Renew the keys; the next probe closes the breaker. Then redrive.",
    ),
    FailureClass.PERMISSION: Explained(
        "These keys may not delete it: access denied.",
        "Grant the right, redrive 10 as a canary, then the rest.",
    ),
    FailureClass.MALFORMED: Explained(
        "It can never work as it is: an impossible key, or a bucket, table or column that is "
        "missing or elsewhere.",
        "Correct the source and redrive. Where the key itself is wrong: `bestbefore dlq redrive "
        "--id ID --set key=KEY`.",
    ),
    FailureClass.HELD: Explained(
        "It is under a lock or a legal hold.",
        "Nothing: it is due again when the lock ends.",
    ),
    FailureClass.DEPENDENCY: Explained(
        "The database does not let the row go: a constraint or a trigger that no plan could see.",
        "Correct what keeps the row, as the error says, then redrive.",
    ),
    FailureClass.CRASHED: Explained(
        "It was delivered three times without a result: it seems to kill workers.",
        "Look at the workers' logs and memory, then redrive this one alone.",
    ),
    FailureClass.UNKNOWN: Explained(
        "Nobody knows what this error means.",
        "Read the attempts; if it looks over, redrive. Tell us, so that it gets a class.",
    ),
}
