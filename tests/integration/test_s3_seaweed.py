"""The adapter against a real server.

SeaweedFS 4.48 maps keys to a directory tree, and so differs from S3 in what it stores:

- it refuses ``.`` and ``..`` as a part of a key (400 InvalidRequest), and parts of more than 255
  bytes (400 KeyTooLongError);
- ``//x``, ``/x`` and ``x`` are one object, and so are ``a\\b`` and ``a/b``: listings name the
  object by the last form;
- writing the marker ``f/`` hides the object ``f``;
- it lists folder by folder, and StartAfter with the name of a folder skips what is in it.

So the adapter meets such keys on the fault server, which keeps them apart.
"""

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bestbefore.adapters.objects.s3.seaweed import LIMITED, Seaweed
from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError
from support.s3 import world

ODD = [
    "q/a+b",
    "q/a b",
    "q/a%20b",
    "q/a%2Bb",
    "q/run_dt%3D2026-01-01%252012%253A30",
    "exp/\x10\x10foo.jpg",
    "exports/x.json",
    'r>&<d/"q".json',
    "r>&<d/&amp;.json",
    "r>&<d/&.json",
    "marker/",
    "folder",
    "folder/child",
    "new\nline",
    "carriage\rreturn",
    "tab\t",
    "u\ufffe",
    "u\uffff",
    "\U0001f600",
    "\uff5e",
    "\u00f6",
    "o\u0308",
    "*",
    "up/movie[2019].mkv",
    "q?x=1#y",
    "trailing ",
    "/".join(5 * ["k" * 204]),  # 1,024 bytes
]


@pytest.fixture
def store(seaweed: Seaweed, bucket: str) -> ObjectWorld:
    client = seaweed.client()
    return world(
        seaweed.settings(),
        bucket,
        lambda key, body: client.put_object(Bucket=bucket, Key=key, Body=body),
    )


def limited(seaweed: Seaweed, store: ObjectWorld) -> ObjectWorld:
    """The same bucket, seen with rights that can be granted and taken back."""
    return world(seaweed.settings(LIMITED), store.bucket, store.put)


def put_all(store: ObjectWorld, keys: list[str]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: store.put(key, b"x"), keys))


def test_o_key_01_to_05_odd_keys_are_listed_to_the_byte_and_each_goes_alone(store):
    put_all(store, [key for key in ODD if not key.endswith("/")])
    store.put("marker/", b"")
    left = set(ODD)
    assert store.keys() == left
    for target in store.targets():
        assert list(store.delete([target])) == [Outcome.DELETED], repr(target.key)
        left.remove(target.key)
        assert store.keys() == left


def test_odd_keys_go_together_as_well(store):
    put_all(store, ODD)
    assert Counter(store.delete(store.targets())) == {Outcome.DELETED: len(ODD)}
    assert store.keys() == set()


def test_odd_keys_are_found_by_a_look(store):
    put_all(store, ODD)
    looks = store.lister.look(store.bucket, [*ODD, "q/a-b"])
    assert {key for key, look in looks.items() if look is None} == {"q/a-b"}
    assert all(look is None or isinstance(look, Listed) for look in looks.values())


@pytest.mark.parametrize("key", ["plain", "control\x01"])
def test_o_race_01_an_object_overwritten_in_between_survives(store, key):
    store.put(key, b"A")
    targets = store.targets()
    store.put(key, b"B")
    assert list(store.delete(targets)) == [Outcome.CHANGED]
    assert [item.size for item in store.listed()] == [1]


@pytest.mark.parametrize("key", ["plain", "control\x01"])
def test_o_race_02_an_object_that_is_gone_is_absent(store, key):
    store.put(key, b"A")
    targets = store.targets()
    assert list(store.delete(targets)) == [Outcome.DELETED]
    assert list(store.delete(targets)) == [Outcome.ABSENT]


def test_rights_are_judged_key_by_key_and_can_be_granted_while_it_runs(seaweed, store):
    put_all(store, ["free/1", "held/1"])
    person = limited(seaweed, store)
    seaweed.grant(store.bucket, "free/")
    free, held = person.targets()
    denied = person.delete([held, free])
    assert isinstance(denied[0], Failure)
    assert denied[0].failure_class is FailureClass.PERMISSION
    assert denied[0].error.startswith(f"s3://{store.bucket}/held/1: AccessDenied")
    assert denied[1] is Outcome.DELETED
    seaweed.grant(store.bucket, "held/")
    assert list(person.delete([held])) == [Outcome.DELETED]
    seaweed.deny(store.bucket, "held/")
    store.put("held/2", b"x")
    (failure,) = person.delete(person.targets("held/"))
    assert isinstance(failure, Failure)
    seaweed.deny(store.bucket, "free/")


def test_one_denied_one_overwritten_and_one_odd_key_leave_997_neighbours_alone(seaweed, store):
    keys = [f"exports/{n:03d}.json" for n in range(998)] + ["exports/\x10.json", "held/x.json"]
    put_all(store, keys)
    person = limited(seaweed, store)
    seaweed.grant(store.bucket, "exports/")
    targets = person.targets()
    assert len(targets) == 1_000
    store.put("exports/500.json", b"new")
    results = dict(zip([t.key for t in targets], person.delete(targets), strict=True))
    seaweed.deny(store.bucket, "exports/")
    denied = results.pop("held/x.json")
    assert isinstance(denied, Failure)
    assert denied.failure_class is FailureClass.PERMISSION
    assert results.pop("exports/500.json") is Outcome.CHANGED
    assert results.pop("exports/\x10.json") is Outcome.DELETED
    assert Counter(results.values()) == {Outcome.DELETED: 997}
    assert store.keys() == {"held/x.json", "exports/500.json"}


def test_flat_keys_are_split_into_ranges_that_cover_them(store):
    keys = [f"customer-{n:06d}.json" for n in range(0, 330_000, 300)]
    put_all(store, keys)
    ranges = store.lister.ranges(store.bucket, "", 4)
    assert len(ranges) >= 4
    assert [item.key for part in ranges for item in store.listed("", part)] == keys


def test_wrong_credentials_are_a_credentials_failure(seaweed, store):
    wrong = seaweed.settings(LIMITED._replace(secret_access_key="wrong"))
    stranger = world(wrong, store.bucket, store.put)
    with pytest.raises(StoreError, match="SignatureDoesNotMatch") as raised:
        stranger.listed()
    assert raised.value.failure.failure_class is FailureClass.CREDENTIALS
    store.put("a", b"x")
    (failure,) = stranger.delete(store.targets())
    assert isinstance(failure, Failure)
    assert failure.failure_class is FailureClass.CREDENTIALS
    assert store.keys() == {"a"}


def test_a_server_ends_with_the_process_that_started_it(seaweed):
    """*seaweed* only tells that there is a binary; this one is killed together with its parent."""
    program = (
        "from bestbefore.adapters.objects.s3.seaweed import Seaweed\n"
        "server = Seaweed().start()\n"
        "print(server._pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        pid = int(parent.stdout.readline())
        handle = os.pidfd_open(pid)
        parent.send_signal(signal.SIGKILL)
    assert select.select([handle], [], [], 30)[0], "the server outlived its parent"
    os.close(handle)
