"""What the embedded queue promises, said as every broker says it."""

from bestbefore.domain.command import MAX_BYTES
from bestbefore.ports.transport import Capabilities

CAPABILITIES = Capabilities(
    max_body=MAX_BYTES,  # there is no message: no command is longer
    retention=None,
    leases=True,
    extends=True,
    fences=True,
    deduplicates=True,
    carries_any_bytes=False,
)
