"""A queue whose messages somebody else's broker carries, while the ledger decides.

An operation is marked in the ledger before its message leaves, and claimed there before anybody
works on it; the message is acked once the ledger knows what came of it. So whatever a broker does
with a message (deliver it twice, late, to two at once, or never), there is one final state.
"""

from bestbefore.stages.carry.carried import LONGEST_REST, Carried
from bestbefore.stages.carry.inbox import Absorbing

__all__ = ["LONGEST_REST", "Absorbing", "Carried"]
