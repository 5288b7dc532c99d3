"""How the values of ``[serve]`` are written: hosts, secrets, the header of a signature."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from bestbefore.app.settings.problems import Unfit, kind, shown
from bestbefore.app.settings.values import filled

STANDARD_HEADER = "webhook-signature"
"""The header of Standard Webhooks, which has its time in another of theirs; a signature in any
header but this is hex."""

_LEAST_BYTES = 32
_MOST_SECRETS = 5
_STANDARD_PREFIX = "whsec_"
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_REMEDY = "make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'"


def one_or_more(check: Callable[[str], str]) -> Callable[[object], tuple[str, ...]]:
    """What takes a text, or a list of them while a secret is replaced."""

    def texts(value: object) -> tuple[str, ...]:
        written: list[Any] = value if isinstance(value, list) else [value]
        if not 1 <= len(written) <= _MOST_SECRETS or not all(isinstance(w, str) for w in written):
            raise Unfit(
                f"expected a text or a list of at most {_MOST_SECRETS}, found {kind(value)}",
                "write one in quotes, or both in [ ] while one replaces the other",
            )
        return tuple(map(check, written))

    return texts


def host(value: str) -> str:
    """An address to listen on."""
    if not value.strip() or value != value.strip() or not value.isascii() or "/" in value:
        raise Unfit(
            f"expected the address of an interface, found {shown(value)}",
            'write "127.0.0.1", or "0.0.0.0" for all of them',
        )
    return value


def header(value: str) -> str:
    """The name of a header, in lower case as they are compared."""
    if not _HEADER.fullmatch(value):
        raise Unfit(
            f"expected the name of a header, found {shown(value)}",
            f'write "{STANDARD_HEADER}", or for example "x-signature-256"',
        )
    return value.lower()


def public_url(value: str) -> str:
    """Where schedulers and push subscriptions reach this service, without a slash at the end."""
    filled(value)
    try:
        there = urlsplit(value)
        good = there.scheme in ("http", "https") and there.hostname and there.port != 0
    except ValueError:
        good = False
    if not good or "@" in value or "?" in value or "#" in value or not value.isprintable():
        raise Unfit(
            f"expected an HTTP address, found {shown(value)}",
            'write for example "https://cleanup.example.com"',
        )
    return value.rstrip("/")


def hmac_key(text: str) -> bytes:
    """The key that *text* stands for: base64 after ``whsec_``, else its own bytes."""
    if text.startswith(_STANDARD_PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(_STANDARD_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            # Not shown, nor is the cause: it is a secret.
            raise Unfit("expected base64 after whsec_", "copy it again, whole") from None
    else:
        key = text.encode()
    if len(key) < _LEAST_BYTES:
        raise Unfit(f"expected at least {_LEAST_BYTES} bytes, found {len(key)}", _REMEDY)
    return key


def hmac_secret(text: str) -> str:
    """A text that stands for an `hmac_key`."""
    hmac_key(text)
    return text


def trigger_secret(text: str) -> str:
    """A secret that can stand in a path as it is."""
    if len(text) < _LEAST_BYTES:
        raise Unfit(f"expected at least {_LEAST_BYTES} characters, found {len(text)}", _REMEDY)
    if not _PATH_SEGMENT.fullmatch(text):
        raise Unfit("expected letters, digits and any of - . _ ~, as it stands in a path", _REMEDY)
    return text
