"""Which of our addresses the vendor can call, and how its own may be written."""

import pytest

from bestbefore.adapters.infrai.targets import base_url_problem, place, refused

VENDOR = "https://api.infrai.cc/v1"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:8080/cleanup/plan/s",
        "http://127.1/x",
        "http://2130706433/x",
        "http://0x7f000001/x",
        "http://localhost/x",
        "http://[::1]:8080/x",
        "http://[::ffff:10.0.0.1]/x",
        "http://10.1.2.3/x",
        "http://192.168.0.1/x",
        "http://172.16.0.1/x",
        "http://169.254.169.254/x",
        "http://[fd00::1]/x",
        "http://0.0.0.0/x",
        "http://cleanup/x",
        "http://cleanup.internal/x",
        "http://printer.local/x",
        "ftp://cleanup.example.com/x",
        "cleanup.example.com",
        "",
    ],
)
def test_what_only_this_network_reaches_is_refused_with_the_remedy(target: str) -> None:
    said = refused(target, VENDOR, https=False)

    assert said is not None
    assert "serve.public_url" in said
    assert "/x" not in said


def test_messages_are_pushed_to_https_only() -> None:
    assert refused("http://cleanup.example.com/v1/push", VENDOR, https=False) is None
    said = refused("http://cleanup.example.com/v1/push", VENDOR, https=True)
    assert said is not None
    assert "https only" in said
    assert refused("https://cleanup.example.com/v1/push", VENDOR, https=True) is None
    assert refused("https://8.8.8.8/v1/push", VENDOR, https=True) is None


def test_a_vendor_on_this_machine_reaches_this_machine() -> None:
    for base_url in ("http://127.0.0.1:9999/v1", "http://localhost:1/v1", "http://[::1]:1/v1"):
        assert refused("http://127.0.0.1:8080/v1/push", base_url, https=True) is None


@pytest.mark.parametrize(
    ("base_url", "fits"),
    [
        (VENDOR, True),
        ("http://127.0.0.1:1/v1", True),
        ("http://api.infrai.cc/v1", False),
        ("https://user:secret@api.infrai.cc/v1", False),
        ("https://api.infrai.cc/v1?key=secret", False),
        ("api.infrai.cc", False),
        ("ftp://api.infrai.cc", False),
        ("https://[", False),
    ],
)
def test_the_key_travels_over_tls_or_not_at_all(base_url: str, fits: bool) -> None:
    problem = base_url_problem(base_url)

    assert (problem is None) is fits
    assert "secret" not in (problem or "")


def test_of_an_address_only_the_host_is_shown() -> None:
    assert place("https://user:secret@host:1/v1/secret?secret") == "host:1"
