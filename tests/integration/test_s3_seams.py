"""A delete that is answered in the store's place."""

from datetime import timedelta

from bestbefore.adapters.objects.s3 import S3Deleter
from bestbefore.adapters.objects.s3.seams import Slowing
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import Target
from support.faults import FaultyS3
from support.s3 import connected


def test_the_store_hears_nothing_and_the_adapter_reads_the_answer_as_any_other(
    faulty: FaultyS3,
) -> None:
    deleter = connected(faulty, "bucket").deleter
    assert isinstance(deleter, S3Deleter)
    slowing = Slowing(deleter)
    stored = faulty.put("bucket", "exports/a.json")
    targets = [Target("exports/a.json", stored.etag, stored.modified)]

    slowing.retry_after = "7"
    (answered,) = deleter.delete("bucket", targets)
    assert isinstance(answered, Failure)
    assert answered.failure_class is FailureClass.THROTTLED
    assert answered.retry_after == timedelta(seconds=7)
    assert slowing.deletes > 0
    assert faulty.asked("DeleteObjects") == faulty.asked("DeleteObject") == []

    slowing.retry_after = None
    assert deleter.delete("bucket", targets) == [Outcome.DELETED]
    assert faulty.keys("bucket") == set()
