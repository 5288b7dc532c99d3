"""What the BullMQ adapter says before it has a server to talk to."""

import asyncio

import pytest
from redis import exceptions as redis

from bestbefore.adapters.queues.bullmq import BullSettings
from bestbefore.adapters.queues.bullmq.client import place
from bestbefore.adapters.queues.bullmq.errors import failure
from bestbefore.adapters.queues.bullmq.loop import Loop, LoopClosed
from bestbefore.domain.failure import FailureClass


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://queue.example.com", "redis://queue.example.com:6379/0"),
        ("redis://user:secret@10.0.0.1:6380/2?ssl_cert_reqs=none", "redis://10.0.0.1:6380/2"),
        ("rediss://:s%2Fcret@queue.example.com/1", "rediss://queue.example.com:6379/1"),
        ("redis://[::1]:6379/", "redis://[::1]:6379/0"),
        ("unix://user:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("redis://:sec/ret@queue.example.com", None),
        ("redis://queue.example.com:port", None),
        ("http://queue.example.com", None),
        ("queue.example.com:6379", None),
        ("redis:///0", None),
        ("", None),
    ],
)
def test_a_url_is_shown_without_what_is_secret_in_it(url: str, shown: str | None) -> None:
    assert place(url) == shown


def test_a_url_that_is_none_is_refused_without_being_repeated() -> None:
    with pytest.raises(ValueError, match=r"url: expected redis://HOST:PORT") as caught:
        BullSettings("redis://:correct/horse@queue.example.com")

    assert "horse" not in f"{caught.value!r}{caught.value.__cause__!r}"


@pytest.mark.parametrize("parameters", ["socket_timeout=horse", "horse=1", "ssl_ca_certs=horse"])
def test_a_parameter_that_redis_does_not_know_is_refused_without_being_repeated(
    parameters: str,
) -> None:
    with pytest.raises(ValueError, match="url: expected parameters of redis-py's") as caught:
        BullSettings(f"redis://queue.example.com/0?{parameters}")

    assert "horse" not in f"{caught.value!r}{caught.value.__cause__!r}"


def test_parameters_of_redis_are_taken() -> None:
    BullSettings("rediss://queue.example.com/0?ssl_cert_reqs=none&socket_timeout=5")
    BullSettings("unix:///run/redis.sock?db=3")


@pytest.mark.parametrize(("key", "name"), [("queue", "a:b"), ("prefix", "a:b"), ("queue", "")])
def test_names_that_other_clients_refuse_are_refused(key: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"{key}: expected a name without colons"):
        BullSettings("redis://localhost", **{key: name})


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (redis.AuthenticationError("WRONGPASS"), FailureClass.CREDENTIALS),
        (redis.NoPermissionError("User has no permissions"), FailureClass.PERMISSION),
        (redis.ResponseError("NOPERM from a script"), FailureClass.PERMISSION),
        (redis.ConnectionError("gone"), FailureClass.TRANSIENT),
        (redis.BusyLoadingError("loading"), FailureClass.TRANSIENT),
        (redis.TimeoutError("slow"), FailureClass.TRANSIENT),
        (redis.ReadOnlyError("You can't write"), FailureClass.TRANSIENT),
        (redis.ResponseError("MISCONF cannot save"), FailureClass.TRANSIENT),
        (redis.ExecAbortError("because of: OOM command not allowed"), FailureClass.TRANSIENT),
        (redis.ResponseError("ERR wrong"), FailureClass.UNKNOWN),
        (TimeoutError(), FailureClass.TRANSIENT),
        (LoopClosed(), FailureClass.TRANSIENT),
    ],
)
def test_every_error_of_redis_has_its_class(error: Exception, failure_class: FailureClass) -> None:
    found = failure(error, "the queue")

    assert found.failure_class is failure_class
    assert found.error.startswith("the queue: ")


def test_an_error_does_not_repeat_the_command_that_caused_it() -> None:
    error = redis.ResponseError("Command # 1 (EVALSHA key.json) of pipeline caused error: ERR odd")

    assert failure(error, "q").error == "q: ERR odd"


def test_what_takes_too_long_is_given_up() -> None:
    loop = Loop("test")
    ended: list[bool] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        loop.run(forever(), 0.01)
    loop.close()
    loop.close()

    assert ended == [True]
    with pytest.raises(LoopClosed):
        loop.run(forever(), 1)
