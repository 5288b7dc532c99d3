"""Every side of a ledger on one database, as the contracts want it."""

from bestbefore.adapters.state.controls import SqlControls
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.dead_letters import SqlDeadLetters
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.queue import StateQueue
from bestbefore.adapters.state.records import SqlRecords
from bestbefore.adapters.state.upkeep import SqlUpkeepLedger
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.contracts.ledger import Sides


def all_sides(database: Database) -> Sides:
    return Sides(
        SqlPlanLedger(database),
        SqlWorkLedger(database),
        StateQueue(database),
        SqlDeadLetters(database),
        SqlRecords(database),
        SqlUpkeepLedger(database),
        SqlControls(database),
    )
