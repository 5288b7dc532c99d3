"""How the gate has the right to delete taken away and given back."""

from pathlib import Path

import pytest

from bestbefore.adapters.objects.directory import (
    DirectoryDeleter,
    DirectoryFiles,
    DirectoryLister,
)
from bestbefore.gate.grounds import ObjectGround
from bestbefore.gate.rights import Rights
from bestbefore.gate.scenario import Broken
from bestbefore.gate.setup import ShiftedClock
from bestbefore.ports.stores import Store


@pytest.fixture
def ground(tmp_path: Path) -> ObjectGround:
    store = Store(
        DirectoryLister(tmp_path), DirectoryDeleter(tmp_path), files=DirectoryFiles(tmp_path)
    )
    return ObjectGround(store, "exports", "bucket", None, ShiftedClock())


def test_the_commands_are_told_which_place_it_is_about(
    ground: ObjectGround, tmp_path: Path
) -> None:
    about = "$BESTBEFORE_GATE_BUCKET $BESTBEFORE_GATE_PREFIX"
    rights = Rights(f"echo revoke {about} >> {tmp_path}/said", f"echo grant >> {tmp_path}/said")
    rights.take(ground)
    rights.give_back(ground)
    assert (tmp_path / "said").read_text() == "revoke bucket bestbefore-gate/\ngrant\n"


def test_a_command_that_fails_is_told_on_the_terminal_and_in_no_report(
    ground: ObjectGround, capfd: pytest.CaptureFixture[str]
) -> None:
    rights = Rights("echo no such role, $PASSWORD >&2; PASSWORD=s3cret sh -c 'exit 3'", "true")
    with pytest.raises(Broken, match="--revoke-command ended with 3; what it said") as raised:
        rights.take(ground)
    assert "s3cret" not in str(raised.value)
    assert "no such role" in capfd.readouterr().err
