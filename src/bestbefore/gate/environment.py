"""What a gate ran on: versions, and the places it was about."""

import platform
from collections.abc import Mapping
from importlib.metadata import version

from bestbefore.app.gate_checks import connections
from bestbefore.app.system import System
from bestbefore.ports.scratch import ScratchState, ScratchTable
from bestbefore.read.documents import Document


def environment(
    system: System, state: ScratchState, tables: Mapping[str, ScratchTable]
) -> Document:
    """`connections`, with the versions of what answers there and of what asks, and what the queue
    promises. *tables* are by the names of their databases. Raises what the ports raise."""
    about = connections(system)
    about["state"]["server"] = state.server()
    for name, table in tables.items():
        about["databases"][name]["server"] = table.server()
    if system.broker is not None:
        promised = system.broker.transport.capabilities
        for name in ("retention", "longest_lease"):
            limit = getattr(promised, name)
            about["queue"][name] = None if limit is None else f"{limit.total_seconds():,.0f} s"
        about["queue"]["max_body"] = f"{promised.max_body:,} bytes"
    return {
        "bestbefore": version("bestbefore"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "machine": platform.node(),
        "run_by": system.person,
        "configuration": str(system.settings.path.absolute()),
        **about,
    }
