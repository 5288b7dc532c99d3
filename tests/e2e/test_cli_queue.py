"""`dlq absorb` and `queue move`, with a queue that another package's adapter is for."""

from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.system import open_system
from bestbefore.contracts.strays import FOREIGN
from support.brokered import Rounds
from support.cli import Cli, Reply, fill
from support.faults import FaultyS3
from support.folder_queue import held, install, put

NONE = {"absorbed": 0, "due_again": 0, "already_ended": 0, "in_ledger": 0, "strays": 0}


class Site:
    """The command line with queues in folders: ``old`` with dead letters, and ``new``."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.old, self.new, self.dead = (folder / name for name in ("old", "new", "dead"))
        for queue in (self.old, self.new, self.dead):
            queue.mkdir()
        self.use(f'options = {{ folder = "{self.old}", dead = "{self.dead}" }}')

    def use(self, options: str) -> None:
        """Write ``[queue]``."""
        kind = '[queue]\nkind = "folder"\n' if options else ""
        self.cli.extra = f"{kind}{options}\n"
        self.cli.write()

    def file(self, name: str, options: str) -> str:
        """The same configuration with another queue."""
        mine, path = self.cli.folder / "bestbefore.toml", self.cli.folder / name
        before = mine.read_text()
        self.use(options)
        path.write_text(mine.read_text())
        mine.write_text(before)
        return name

    def __call__(self, *words: str, code: int = 0) -> Reply:
        return self.cli(*words, code=code, executable=True)

    def json(self, *words: str, code: int = 0) -> Any:
        return self(*words, "--json", code=code).json


@pytest.fixture
def site(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    install(tmp_path / "site", monkeypatch)
    return Site(cli, tmp_path)


def sent(site: Site, faulty: FaultyS3, n: int) -> None:
    """*n* objects planned, and their commands in the old queue."""
    fill(faulty, n)
    site("plan", "exports")
    system = open_system(site.cli.folder / "bestbefore.toml", {})
    system.working.send(Rounds())
    system.close()
    assert len(held(site.old)) == n


def test_absorb_brings_a_brokers_dead_letters_into_the_ledger(site: Site, faulty: FaultyS3) -> None:
    sent(site, faulty, 3)
    for file in site.old.iterdir():
        file.rename(site.dead / file.name)
    for body in FOREIGN:
        put(site.dead, body)

    said = site.json("dlq", "absorb")

    assert said == NONE | {
        "absorbed": 7, "due_again": 3, "strays": 4, "queue": "folder dead",
    }  # fmt: skip
    assert held(site.dead) == []
    assert {letter["command"] for letter in site.json("dlq", "list")} >= {"hello", ""}
    assert site.json("work", "--drain")["outcomes"] == {"deleted": 3}
    text = site("dlq", "absorb").out
    assert text == "absorbed 0 from folder dead\n"
    assert site.json("dlq", "redrive", "--all")["refused"] == 4
    assert site.cli.audit.problems() == []


def test_absorb_says_what_became_of_each(site: Site, faulty: FaultyS3) -> None:
    sent(site, faulty, 2)
    messages = held(site.old)
    site("work", "--drain")
    for body in [*messages, b"hello"]:
        put(site.dead, body)

    text = site("dlq", "absorb").out

    assert "absorbed 3 from folder dead" in text
    assert "2 had ended" in text
    assert "1 execute nothing" in text


def test_dead_letters_that_do_not_exist_are_named_o_dlq_03(site: Site, faulty: FaultyS3) -> None:
    """O-DLQ-03: and the message stays where it is."""
    sent(site, faulty, 1)
    site.dead.rmdir()

    for _ in range(3):
        assert "folder dead: there is no such queue" in site("dlq", "absorb", code=2).err

    assert len(held(site.old)) == 1


def test_without_dead_letters_of_its_own_there_is_nothing_to_absorb(site: Site) -> None:
    site.use(f'options = {{ folder = "{site.old}" }}')
    assert site.json("dlq", "absorb") == NONE | {"queue": None}
    assert "none that are configured" in site("dlq", "absorb").out
    site.use("")
    assert site.json("dlq", "absorb") == NONE | {"queue": None}
    assert "it is the state database" in site("dlq", "absorb").out


def test_a_queue_is_moved_to_that_of_another_file(site: Site, faulty: FaultyS3) -> None:
    sent(site, faulty, 3)
    put(site.old, b"hello")
    there = site.file("there.toml", f'options = {{ folder = "{site.new}" }}')

    said = site.json("queue", "move", "--to", there)

    assert (said["moved"], said["absorbed"], said["left"], said["complete"]) == (3, 1, 0, True)
    assert (len(held(site.old)), len(held(site.new))) == (0, 3)
    text = site("queue", "move", "--to", there).out
    assert "moved 0 from folder old to folder new" in text
    assert f"restart every worker, and `serve`, with {there}" in text
    assert site.json("work", "--drain", "--config", there)["outcomes"] == {"deleted": 3}
    assert faulty.keys("exports") == set()
    assert held(site.new) == []
    assert site.cli.audit.problems() == []


def test_a_queue_is_moved_to_the_state_database_and_back(site: Site, faulty: FaultyS3) -> None:
    sent(site, faulty, 3)
    there = site.file("there.toml", "")
    assert site.json("queue", "move", "--to", there)["moved"] == 3
    back = site("queue", "move", "--config", there, "--to", "bestbefore.toml").out
    assert "nothing to move" in back
    assert site.json("work", "--drain", "--config", there)["outcomes"] == {"deleted": 3}


def test_a_move_that_makes_no_sense_is_refused(site: Site, faulty: FaultyS3) -> None:
    sent(site, faulty, 1)
    assert "is the same as in" in site("queue", "move", "--to", "bestbefore.toml", code=2).err
    assert "does not exist" in site("queue", "move", "--to", "nothing.toml", code=2).err
    site.file("other.toml", f'options = {{ folder = "{site.new}" }}')
    other = site.cli.folder / "other.toml"
    other.write_text('[state]\nurl = "sqlite:///elsewhere.db"\n' + other.read_text())
    refused = site("queue", "move", "--to", "other.toml", code=2).err
    assert "elsewhere.db" in refused
    assert "bestbefore.db" in refused
    site.file("gone.toml", f'options = {{ folder = "{site.new}-not" }}')
    assert "there is no such queue" in site("queue", "move", "--to", "gone.toml", code=2).err
    assert len(held(site.old)) == 1
