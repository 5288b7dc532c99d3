"""A configuration file that is right, and what it becomes."""

from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.app.settings import ConfigError, ScheduleSettings, load
from bestbefore.domain.failure import Attempts
from bestbefore.domain.finding import Level
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.retention import Age
from support.settings import Read

SMALL = """
[stores.exports]
kind = "s3"

[policies.weekly]
version = "v1"
older_than = "30d"
objects = { store = "exports", bucket = "digests", prefix = "exports/" }
"""


def test_a_small_file_gets_the_defaults(read: Read, tmp_path: Path) -> None:
    settings = read(SMALL)

    assert settings.path == tmp_path / "bestbefore.toml"
    assert settings.state.url == f"sqlite:///{tmp_path}/bestbefore.db"
    assert settings.state.file == tmp_path / "bestbefore.db"
    assert settings.queue.kind == "state"
    assert settings.queue.lease == timedelta(seconds=60)
    assert settings.stores["exports"].endpoint_url is None
    assert settings.warnings == ()
    assert settings.policies == {
        "weekly": Policy(
            name="weekly",
            version="v1",
            owner="",
            older_than=Age(0, 30 * 86_400),
            source=ObjectSource("exports", "digests", "exports/"),
        )
    }


def test_every_key_of_a_policy_arrives(read: Read) -> None:
    settings = read(
        """
        [stores.exports]
        kind = "s3"
        [policies.weekly]
        version = "v2"
        owner = "growth-team"
        schedule = "0 2 * * *"
        timezone = "Europe/Berlin"
        older_than = "6mo"
        action = "delete"
        max_deletes = 100_000
        max_fraction = 0.5
        first_run_limit = 0
        priority = -3
        attempts = { transient = 5, permission = 1 }
        [policies.weekly.objects]
        store = "exports"
        bucket = "digests"
        prefix = "exports/2026"
        prefix_is_literal = true
        match = "*.json"
        min_size = "10KB"
        max_size = "1 MiB"
        folder_markers = "delete"
        generation = 'exports/(?P<generation>[^/]+)/'
        keep_generations = 2
        storage_class = "GLACIER"
        tags = { team = "growth", stage = "" }
        lacks_tags = ["keep", "hold", "keep"]
        current_pointer = "exports/current.json"
        """
    )

    assert settings.policies["weekly"] == Policy(
        name="weekly",
        version="v2",
        owner="growth-team",
        schedule="0 2 * * *",
        timezone="Europe/Berlin",
        older_than=Age(6, 0),
        priority=-3,
        reach=Reach(100_000, 0.5, 0),
        attempts=Attempts(transient=5, permission=1, unknown=3),
        source=ObjectSource(
            store="exports",
            bucket="digests",
            prefix="exports/2026",
            match="*.json",
            min_size=10_000,
            max_size=1_048_576,
            folder_markers=True,
            generation="exports/(?P<generation>[^/]+)/",
            keep_generations=2,
            storage_class=("GLACIER",),
            tags=(("stage", ""), ("team", "growth")),
            lacks_tags=("hold", "keep"),
            current_pointer="exports/current.json",
        ),
    )


def test_every_key_about_the_last_ones_arrives(read: Read) -> None:
    keys = """keep_last = 3, keep_last_group = '([^/]+)$', keep_last_min_size = "1kB\""""
    source = read(SMALL.replace(" }", f", {keys} }}")).policies["weekly"].objects

    assert (source.keep_last, source.keep_last_group) == (3, "([^/]+)$")
    assert source.keep_last_min_size == 1_000


def test_a_pointer_is_enough_for_generations_to_mean_something(read: Read) -> None:
    pointer = """current_pointer = "exports/current", generation = '(?P<generation>[0-9]+)'"""
    source = read(SMALL.replace(" }", f", {pointer} }}")).policies["weekly"].objects

    assert (source.current_pointer, source.keep_generations) == ("exports/current", 0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('storage_class = ["A", "B"]', 'storage_class = ["B", "A", "A"]'),
        ('lacks_tags = "keep"', 'lacks_tags = ["keep"]'),
        ('tags = { a = "1", b = "2" }', 'tags = { b = "2", a = "1" }'),
    ],
)
def test_the_order_in_which_something_is_written_does_not_decide_what_goes(
    read: Read, first: str, second: str
) -> None:
    one, other = (
        read(SMALL.replace(" }", f", {line} }}")).policies["weekly"] for line in (first, second)
    )

    assert one.fingerprint() == other.fingerprint()


def test_a_whole_bucket_is_chosen_in_so_many_words(read: Read) -> None:
    settings = read(SMALL.replace('prefix = "exports/"', "whole_bucket = true"))

    assert settings.policies["weekly"].objects.prefix == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0B", 0),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("2MB", 2_000_000),
        ("5TiB", 5 << 40),
    ],
)
def test_sizes_have_units_of_a_thousand_or_of_1024(read: Read, written: str, expected: int) -> None:
    text = SMALL.replace('"exports/" }', f'"exports/", min_size = "{written}" }}')

    assert read(text).policies["weekly"].objects.min_size == expected


@pytest.mark.parametrize(
    ("lease", "seconds"), [("60s", 60), ("5min", 300), ("12h", 43_200), ("PT2M", 120)]
)
def test_a_lease_is_a_duration(read: Read, lease: str, seconds: int) -> None:
    assert read(f'[queue]\nlease = "{lease}"\n').queue.lease == timedelta(seconds=seconds)


def test_a_relative_state_file_is_relative_to_the_configuration(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    settings = read('[state]\nurl = "sqlite:///data/ledger.db"\n')

    assert settings.state.file == tmp_path / "data" / "ledger.db"


def test_a_relative_state_file_stays_beside_a_linked_configuration(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "bestbefore.toml").write_text("")
    (tmp_path / "bestbefore.toml").symlink_to(tmp_path / "..data" / "bestbefore.toml")

    assert load(tmp_path / "bestbefore.toml", {}).state.file == tmp_path / "bestbefore.db"


def test_an_absolute_state_file_stays_where_it_is(read: Read) -> None:
    settings = read('[state]\nurl = "sqlite:////var/lib/bestbefore/ledger.db"\n')

    assert settings.state.file == Path("/var/lib/bestbefore/ledger.db")


def test_a_ledger_on_postgresql_keeps_its_password_to_itself(read: Read) -> None:
    url = "postgresql+psycopg://me:geheim@db.example.com:5433/cleanup?sslmode=verify-full"

    hidden = read('[state]\nurl_env = "STATE"\n', {"STATE": url})
    shown = read(f'[state]\nurl = "{url}"\n')

    assert hidden.state.url == shown.state.url == url
    assert "geheim" not in repr(hidden)
    assert [warning.code for warning in shown.warnings] == ["secret-in-file", "no-policies"]
    assert "geheim" not in str(shown.warnings)
    assert [warning.code for warning in hidden.warnings] == ["no-policies"]


def test_secrets_and_addresses_come_from_the_environment_or_from_files(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cr3t\n")
    settings = read(
        """
        [state]
        url_env = "STATE"
        [stores.exports]
        kind = "s3"
        region = "us-east-1"
        endpoint_url_env = "ENDPOINT"
        access_key_id_env = "KEY_ID"
        secret_access_key_file = "secret"
        """,
        {"STATE": "sqlite:///x.db", "ENDPOINT": "http://127.0.0.1:8333/", "KEY_ID": "AKID"},
    )

    store = settings.stores["exports"]
    assert settings.state.file == tmp_path / "x.db"
    assert store.endpoint_url == "http://127.0.0.1:8333"
    assert (store.access_key_id, store.secret_access_key) == ("AKID", "s3cr3t")


def test_secrets_are_not_in_the_repr(read: Read) -> None:
    settings = read(
        """
        [stores.exports]
        kind = "s3"
        access_key_id = "AKID-TOP"
        secret_access_key = "S3CR3T"
        """
    )

    assert settings.stores["exports"].secret_access_key == "S3CR3T"
    assert "S3CR3T" not in repr(settings)
    assert "AKID-TOP" not in repr(settings)


def test_settings_are_frozen(read: Read) -> None:
    settings = read(SMALL)

    with pytest.raises(FrozenInstanceError):
        settings.queue = None  # type: ignore[misc,assignment]
    with pytest.raises(TypeError):
        settings.policies["other"] = settings.policies["weekly"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        (SMALL.replace("30d", "12h"), "older-than-under-a-day", "policies.weekly.older_than"),
        (SMALL.replace("exports/", "exports/*/"), "pattern-in-prefix", "weekly.objects.prefix"),
        (SMALL.partition("[policies")[0], "no-policies", "no policy"),
        (
            SMALL.replace('"s3"', '"s3"\naccess_key_id = "a"\nsecret_access_key = "b"'),
            "secret-in-file",
            "stores.exports.secret_access_key",
        ),
    ],
)
def test_what_is_allowed_but_unusual_is_warned_about(
    read: Read, text: str, code: str, named: str
) -> None:
    [finding] = read(text).warnings

    assert (finding.code, finding.level) == (code, Level.WARNING)
    assert named in finding.message
    assert finding.remedy


def test_a_file_with_a_byte_order_mark_is_read(read: Read) -> None:
    assert "weekly" in read("\ufeff" + SMALL).policies


def test_a_missing_file_points_to_init(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nowhere\.toml: there is no such file; .*bestbefore init"
    ):
        load(tmp_path / "nowhere.toml", {})


def test_a_folder_is_not_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bestbefore.toml"
    file.write_bytes('owner = "Größe"'.encode("latin-1"))

    with pytest.raises(ConfigError, match=r"not UTF-8 text .* save it as UTF-8"):
        load(file, {})


def test_a_syntax_error_names_its_line(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"not valid TOML: .*line 2, column \d+\); correct that"):
        read("[policies.weekly]\nolder_than = 30d\n")


def test_absurd_nesting_is_an_error_and_no_traceback(read: Read) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        read("x = " + "[" * 5000)


def test_evidence_goes_to_a_folder_named_after_the_state_database(
    read: Read, tmp_path: Path
) -> None:
    assert read(SMALL).state.keep is None

    settings = read(f'[state]\nurl = "sqlite:///state/ledger.db"\nkeep = "400d"\n{SMALL}')

    assert settings.state.keep == Age(0, 400 * 86_400)
    assert settings.evidence == tmp_path / "state" / "ledger-evidence"


def test_the_schedule_section_has_defaults_and_takes_all_its_keys(read: Read) -> None:
    assert read(SMALL).schedule == ScheduleSettings(
        "embedded", timedelta(minutes=15), timedelta(seconds=60)
    )

    section = '[schedule]\nkind = "none"\ngrace = "2h"\nearly_tolerance = "30s"\n'
    assert read(section + SMALL).schedule == ScheduleSettings(
        "none", timedelta(hours=2), timedelta(seconds=30)
    )


def test_catch_up_arrives_and_decides_nothing_about_what_goes(read: Read) -> None:
    scheduled = SMALL.replace('"v1"', '"v1"\nschedule = "0 2 * * *"')
    later = read(scheduled).policies["weekly"]
    now = read(scheduled.replace('0 2 * * *"', '0 2 * * *"\ncatch_up = "now"')).policies["weekly"]

    assert (later.catch_up, now.catch_up) == (False, True)
    assert later.fingerprint() == now.fingerprint()
