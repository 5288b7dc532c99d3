"""`queue subscribe`: a queue that can push is asked to, once, and what is missing is named."""

import pytest

from support.cli import Cli
from support.infrai import KEY, Infrai

SECRET = "0123456789abcdef" * 2


def configure(cli: Cli, infrai: Infrai, serve: str) -> None:
    infrai.queue("work")
    cli.extra = (
        f'[infrai]\napi_key = "{KEY}"\nbase_url = "{infrai.base_url}"\n'
        f'[queue]\nkind = "infrai"\nqueue = "work"\n[serve]\n{serve}\n'
    )
    cli.write()


def test_a_queue_is_asked_once_to_push_to_the_public_address(cli: Cli, infrai: Infrai) -> None:
    configure(cli, infrai, f'public_url = "https://c.example.com"\nhmac_secret = "{SECRET}"')

    first, second = (cli.json("queue", "subscribe") for _ in range(2))

    assert first == second
    assert first["url"] == "https://c.example.com/v1/push"
    (made,) = infrai.queues.queues["work"].subscriptions.values()
    assert (made["url"], made["secret"], made["id"]) == (
        first["url"], SECRET, first["subscription"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (f'hmac_secret = "{SECRET}"', "serve.public_url"),
        ('public_url = "https://c.example.com"', "serve.hmac_secret"),
        (
            'public_url = "https://c.example.com"\n'
            'hmac_secret = "whsec_//////////////////////////////////////////8="',
            "without whsec_",
        ),
    ],
)
def test_what_is_missing_is_named(cli: Cli, infrai: Infrai, serve: str, said: str) -> None:
    configure(cli, infrai, serve)

    assert said in cli("queue", "subscribe", code=2).err


def test_a_queue_that_pushes_nothing_says_so(cli: Cli) -> None:
    assert "pushes nothing" in cli("queue", "subscribe", code=2).err
