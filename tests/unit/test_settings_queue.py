"""`[queue]` and `[infrai]`: what each kind takes, and where its secrets come from."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bestbefore.app import brokers
from bestbefore.app.settings import ConfigError, Settings, load
from bestbefore.ports.ledger import LedgerError

SECRET = "geheim"


def read(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    file = tmp_path / "bestbefore.toml"
    file.write_text(text)
    return load(file, environ or {})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        (
            'kind = "sqs"\nqueue_url = "https://sqs.eu-west-1.amazonaws.com/1/q"\nregion = "r"',
            {"queue_url": "https://sqs.eu-west-1.amazonaws.com/1/q", "region": "r"},
        ),
        (
            'kind = "sqs"\nqueue_url_env = "Q"\nendpoint_url = "http://127.0.0.1:1/"\n'
            'access_key_id = "id"\nsecret_access_key_env = "S"\ndead_letter_url = "http://h/dead"',
            {
                "queue_url": "http://h/1/q",
                "endpoint_url": "http://127.0.0.1:1",
                "access_key_id": "id",
                "secret_access_key": SECRET,
                "dead_letter_url": "http://h/dead",
            },
        ),
        (
            'kind = "rabbitmq"\nurl_env = "A"',
            {"url": f"amqp://u:{SECRET}@h/%2F", "queue": "bestbefore"},
        ),
        (
            'kind = "rabbitmq"\nurl_env = "A"\nqueue = "q"\ndead_letter_queue = "d"\n'
            "declare = false",
            {
                "url": f"amqp://u:{SECRET}@h/%2F",
                "queue": "q",
                "dead_letter_queue": "d",
                "declare": False,
            },
        ),
        (
            'kind = "bullmq"\nurl = "redis://h/1"\nprefix = "p"',
            {"url": "redis://h/1", "queue": "bestbefore", "prefix": "p"},
        ),
        (
            'kind = "infrai"\nqueue = "q"\nretention_days = 14\n[infrai]\napi_key_env = "S"',
            {"queue": "q", "retention_days": 14},
        ),
    ],
)
def test_a_kind_takes_its_own_keys(tmp_path: Path, text: str, values: dict[str, object]) -> None:
    environ = {"Q": "http://h/1/q", "S": SECRET, "A": f"amqp://u:{SECRET}@h/%2F"}

    settings = read(tmp_path, f"[queue]\n{text}\n", environ)

    assert settings.queue.values == values
    assert settings.queue.is_elsewhere == bool(values)
    assert SECRET not in repr(settings)


def test_infrai_has_one_key_for_its_queue_and_its_cron(tmp_path: Path) -> None:
    text = '[queue]\nkind = "infrai"\n[infrai]\napi_key_env = "K"\nbase_url = "http://127.0.0.1:8/"'

    settings = read(tmp_path, text, {"K": SECRET})

    assert settings.queue.values == {"queue": "bestbefore"}
    assert settings.infrai.api_key == SECRET
    assert settings.infrai.base_url == "http://127.0.0.1:8"
    assert SECRET not in repr(settings)


def test_infrai_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"infrai.api_key: expected this key.*INFRAI_API_KEY"):
        read(tmp_path, '[queue]\nkind = "infrai"\n')


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"infrai\.base_url: expected the address of the API"):
        read(tmp_path, '[infrai]\nbase_url = "ftp://x"\n')


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'[queue]\nkind = "rabbitmq"\nurl = "amqp://u:{SECRET}@h"\n', "queue.url"),
        (
            '[queue]\nkind = "sqs"\nqueue_url = "https://h/1/q"\naccess_key_id = "i"\n'
            f'secret_access_key = "{SECRET}"\n',
            "queue.secret_access_key",
        ),
        (f'[infrai]\napi_key = "{SECRET}"\n', "infrai.api_key"),
    ],
)
def test_a_secret_in_the_file_earns_a_warning_that_does_not_show_it(
    tmp_path: Path, text: str, key: str
) -> None:
    (warning, _) = read(tmp_path, text).warnings

    assert warning.code == "secret-in-file"
    assert key in warning.message
    assert SECRET not in warning.message + warning.remedy


@pytest.mark.parametrize(
    "text",
    [
        f'[queue]\nkind = "rabbitmq"\nurl = "http://u:{SECRET}@h"\n',
        f'[queue]\nkind = "rabbitmq"\nurl = "amqp://u:{SECRET}@h:x"\n',
        f'[queue]\nkind = "bullmq"\nurl = ["redis://u:{SECRET}@h"]\n',
        f'[queue]\nkind = "sqs"\nqueue_url = "https://u:{SECRET}@h/1/q"\n',
        f'[infrai]\napi_key = ["{SECRET}"]\n',
    ],
)
def test_no_message_shows_an_address_with_a_password(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)

    assert SECRET not in str(caught.value)


def test_a_kind_that_nothing_brings_is_refused_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'"rabbitmq" or "bullmq".*found "kafka"'):
        read(tmp_path, '[queue]\nkind = "kafka"\n')


def test_the_embedded_queue_needs_no_broker(tmp_path: Path) -> None:
    settings = read(tmp_path, "")

    with pytest.raises(LedgerError):
        brokers.connect(settings)
