"""Every scenario, in the order in which they are played. A new one goes into the module it belongs
to, or into one of its own that is imported here."""

from bestbefore.gate.scenario import SCENARIOS
from bestbefore.gate.scenarios import dead_letters as dead_letters
from bestbefore.gate.scenarios import dependents as dependents
from bestbefore.gate.scenarios import duplicates as duplicates
from bestbefore.gate.scenarios import failures as failures
from bestbefore.gate.scenarios import foreground as foreground
from bestbefore.gate.scenarios import kills as kills
from bestbefore.gate.scenarios import objects as objects
from bestbefore.gate.scenarios import reach as reach
from bestbefore.gate.scenarios import rows as rows
from bestbefore.gate.scenarios import slots as slots
from bestbefore.gate.scenarios import transport as transport

__all__ = ["SCENARIOS"]
