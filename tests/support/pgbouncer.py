"""A PostgreSQL database behind PgBouncer, which comes and goes with the test."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.forks import until
from support.ports import free_port
from support.postgresql import Postgres

_POOLER = """
[databases]
* = host={there.host} port={server_port} user={there.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
ignore_startup_parameters = options
{user}
"""


@pytest.fixture
def pooled_url(postgres: Postgres) -> Iterator[str]:
    """A database through a pooler that hands out another session for every transaction."""
    binary = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if binary is None:
        if os.environ.get("CI"):
            pytest.fail("pgbouncer is not installed")
        pytest.skip("pgbouncer is not installed")
    there = sa.make_url(postgres.database_url(postgres.create_database()))
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bestbefore-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # it does not run as root
        user = "user = nobody" if os.getuid() == 0 else ""
        (folder / "pgbouncer.ini").write_text(
            _POOLER.format(there=there, server_port=there.port or 5432, port=port, user=user)
        )
        with (folder / "log").open("w") as said:
            process = subprocess.Popen(
                [binary, "pgbouncer.ini"], cwd=folder, stdout=said, stderr=said
            )
        try:
            until(lambda: _listens(port) or process.poll() is not None, what="pgbouncer")
            assert process.poll() is None, (folder / "log").read_text()
            yield there.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        finally:
            process.terminate()
            process.wait(10)
            postgres.drop_database(str(there.database))


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
