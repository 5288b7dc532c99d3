"""The gate's place in a bucket: what it puts there is what the policy of that bucket takes."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.app.system import open_system
from bestbefore.domain.versions import Versions
from bestbefore.gate.grounds import PREFIX, ObjectGround
from bestbefore.gate.rights import Rights
from bestbefore.gate.run import Gate, chosen
from bestbefore.gate.scenario import NotApplicable
from bestbefore.gate.setup import ShiftedClock
from support.gates import Gates
from support.versions import VersionedBucket

NAMES = ["old/a.json", "old/b.json"]
KEYS = [PREFIX + name for name in NAMES]

On = Callable[[Versions], ObjectGround]


@pytest.fixture
def on(gates: Gates, seaweed: Seaweed, versioned: VersionedBucket) -> Iterator[On]:
    """The ground of a policy of that mode in a bucket that keeps versions."""
    gates.objects(seaweed.settings(), versioned.name)
    gates.write()
    with closing(open_system(gates.path, os.environ)) as system:
        yield lambda mode: ObjectGround(
            system.store("exports"), "exports", versioned.name, mode, ShiftedClock()
        )


@pytest.mark.parametrize("mode", Versions)
def test_one_thing_is_due_under_each_key_and_cleared_with_all_its_versions(
    on: On, mode: Versions
) -> None:
    ground = on(mode)
    ground.ready(NAMES)
    assert ground.due() == KEYS
    assert ground.keys() == KEYS
    ground.clear()
    assert ground.is_empty()


def test_a_bucket_is_tried_once_for_each_mode_and_never_by_who_may_not_delete(
    gates: Gates, seaweed: Seaweed, versioned: VersionedBucket
) -> None:
    gates.objects(seaweed.settings(), versioned.name)
    gates.write()
    written = gates.path.read_text()
    store = written[written.index("[stores.exports]") : written.index("[policies")]
    policies = [("exports", "purge"), ("exports", "noncurrent"), ("exports", "purge"),
                ("reader", "purge")]  # fmt: skip
    with gates.path.open("a") as file:
        file.write("\n" + store.replace("exports", "reader"))
        for number, (name, mode) in enumerate(policies):
            file.write(
                f'[policies.p{number}]\nversion = "v1"\nolder_than = "30d"\n'
                f'[policies.p{number}.objects]\nstore = "{name}"\nbucket = "{versioned.name}"\n'
                f'prefix = "p{number}/"\nversions = "{mode}"\n'
            )
    with closing(open_system(gates.path, os.environ)) as system:
        parts = Gate(system, Rights(denied=("reader",))).parts(chosen(["foreground-objects"]))
        grounds = [part.ground for part in parts if isinstance(part.ground, ObjectGround)]
    assert [(one.name, one.source().versions) for one in grounds] == [
        ("exports", None), ("exports", Versions.PURGE), ("exports", Versions.NONCURRENT),
    ]  # fmt: skip


def test_what_is_current_is_not_due_where_only_what_was_replaced_goes(on: On) -> None:
    ground = on(Versions.NONCURRENT)
    ground.put(NAMES)
    assert ground.due() == []


def test_a_bucket_that_keeps_no_version_any_more_has_nothing_to_show_of_what_was_replaced(
    on: On, versioned: VersionedBucket, seaweed: Seaweed
) -> None:
    seaweed.client().put_bucket_versioning(
        Bucket=versioned.name, VersioningConfiguration={"Status": "Suspended"}
    )
    with pytest.raises(NotApplicable, match="Suspended"):
        on(Versions.NONCURRENT).ready(NAMES)
    assert not on(Versions.PURGE).by_version, "the version null can be written over"
