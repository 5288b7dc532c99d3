"""What lies in the demo's store: weekly digests of six weeks, and the policy about them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bestbefore.adapters.objects.s3.seaweed import LIMITED, REGION, Seaweed

BUCKET = "weekly-digests"
POLICY = "weekly-digest-exports"
PREFIX = "exports/"

DENIED = "2026-W22"
"""The first week: its folder belongs to somebody who has not given us the right to delete."""
GRANTED = ("2026-W23", "2026-W24", "2026-W25", "2026-W26")
CURRENT = "2026-W27"

_CUSTOMERS = {DENIED: 40, **dict.fromkeys(GRANTED, 520), CURRENT: 320}

_ODD_NAMES = (
    "a+b.json",
    "two words.json",
    "100%2B.json",
    "line\nbreak.json",
    "carriage\rreturn.json",
    "bell\x07.json",  # XML 1.0 cannot carry it: goes by a DELETE of its own
    "\x01",
    '<a href="x">&\'.json',
    "größe-日本語-🎉.json",
    "e\u0301.json",  # two code points that look like one
    "[x]{y}$.json",
    " leading and trailing ",
)
"""Names that break scripts. Two kinds are missing, as SeaweedFS differs from S3 there: it folds
doubled slashes into one, and its rights on a prefix leave out keys with ``*`` or ``?`` in them."""

KEY_ID, SECRET = "DEMO_KEY_ID", "DEMO_SECRET"

OLDER_THAN_SECONDS = 2

_CONFIG = rf"""
[stores.exports]
kind = "s3"
endpoint_url = "{{endpoint}}"
region = "{REGION}"
access_key_id_env = "{KEY_ID}"
secret_access_key_env = "{SECRET}"

[policies.{POLICY}]
version = "demo-v1"
owner = "growth-team"
older_than = "{OLDER_THAN_SECONDS}s"    # in real life "30d"
max_deletes = 1_500

[policies.{POLICY}.objects]
store = "exports"
bucket = "{BUCKET}"
prefix = "{PREFIX}"
generation = 'exports/(?P<generation>\d{{{{4}}}}-W\d{{{{2}}}})/'
keep_generations = 1
"""


class Sample:
    """The bucket on *server*, and what was put into it by generation."""

    def __init__(self, server: Seaweed) -> None:
        self.keys: dict[str, list[str]] = {}
        self._server = server
        self._client = server.client()

    def upload(self) -> None:
        """Fill the bucket, the current week last, and give the limited identity its rights."""
        self._client.create_bucket(Bucket=BUCKET)
        with ThreadPoolExecutor(8) as threads:
            for week, customers in _CUSTOMERS.items():
                self.keys[week] = list(_keys(week, customers))
                list(threads.map(lambda key: self.put(key, "first"), self.keys[week]))
        for week in GRANTED:
            self.grant(week)

    def grant(self, week: str) -> None:
        """Let the policy's identity delete the exports of *week*."""
        self._server.grant(BUCKET, f"{PREFIX}{week}/")

    def put(self, key: str, edition: str) -> None:
        """Write one export, as the product that makes them would."""
        body = f'{{"edition": "{edition}", "digest": "{"." * 100}"}}'.encode()
        self._client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def left(self) -> set[str]:
        """Every key in the bucket, as the store lists it."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {item["Key"] for page in pages for item in page.get("Contents", ())}

    def configure(self, folder: Path) -> dict[str, str]:
        """Write ``bestbefore.toml``; returns the variables it refers to."""
        text = _CONFIG.format(endpoint=self._server.endpoint)
        (folder / "bestbefore.toml").write_text(text.lstrip())
        return {KEY_ID: LIMITED.access_key_id, SECRET: LIMITED.secret_access_key}

    @property
    def total(self) -> int:
        return sum(map(len, self.keys.values()))

    @property
    def expired(self) -> int:
        """How many lie in the generations that are not the current one."""
        return self.total - len(self.keys[CURRENT])

    @property
    def odd(self) -> int:
        return len(_odd_keys())


def _keys(week: str, customers: int) -> Iterator[str]:
    for customer in range(customers):
        yield f"{PREFIX}{week}/customer-{customer:05}.json"
    if week == GRANTED[0]:
        yield from _odd_keys()


def _odd_keys() -> list[str]:
    folder = f"{PREFIX}{GRANTED[0]}/"
    longest = folder + "/".join("long" * 50 for _ in range(6))
    return [*(folder + name for name in _ODD_NAMES), longest[:1024]]
