"""`export` into files."""

import pyarrow.parquet as pq

from support.cli import Cli, fill
from support.faults import FaultyS3


def test_export_writes_parquet_runs_and_the_audit(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    cli("run", "exports")
    cli("pause", "--reason", "audit")
    file = cli.folder / "evidence.parquet"

    reply = cli("export", "--format", "parquet", "--output", str(file))

    assert reply.out == ""
    assert "3 operations in" in reply.err
    assert pq.read_table(file)["outcome"].to_pylist() == ["deleted"] * 3
    (run,) = cli("export", "--runs").lines
    assert run["outcomes"] == {"deleted": 3}
    assert run["rule"]["objects.bucket"] == "exports"
    assert [event["action"] for event in cli("export", "--events").lines] == ["pause"]
    assert "go together" in cli("export", "--format", "parquet", code=2).err
    missing = str(cli.folder / "nowhere" / "evidence.parquet")
    assert "cannot be written" in cli("export", "--format", "parquet", "--output", missing,
                                      code=2).err  # fmt: skip
