"""`[schedule]` with a scheduler of somebody else's."""

from pathlib import Path

import pytest

from bestbefore.app.schedulers import scheduler_of
from bestbefore.app.settings import ConfigError, Settings, load

ROLE = 'role_arn = "arn:aws:iam::123456789012:role/bestbefore-triggers"'
QUEUE = 'trigger_queue_url = "https://sqs.eu-central-1.amazonaws.com/123456789012/triggers"'
BUS = 'http_target_arn = "arn:aws:events:eu-central-1:123456789012:event-bus/cleanup"'
GOOD = f'kind = "eventbridge"\n{ROLE}\n{QUEUE}'


def loaded(folder: Path, schedule: str, **environ: str) -> Settings:
    file = folder / "bestbefore.toml"
    file.write_text(f"[schedule]\n{schedule}\n", encoding="utf-8")
    return load(file, environ)


def problems(folder: Path, schedule: str) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, schedule)
    return [(".".join(p.place), p.message, p.remedy) for p in caught.value.problems]


def test_a_queue_and_a_role_are_enough(tmp_path: Path) -> None:
    there = loaded(tmp_path, GOOD).schedule

    assert there.is_outside
    assert there.outside.group == "bestbefore"
    assert there.outside.role_arn.endswith("bestbefore-triggers")
    assert there.outside.trigger_queue_url is not None
    assert there.outside.region is there.outside.access_key_id is None


def test_keys_come_from_the_environment_and_are_shown_nowhere(tmp_path: Path) -> None:
    keys = 'access_key_id_env = "ID"\nsecret_access_key_env = "KEY"\nendpoint_url_env = "URL"'

    settings = loaded(tmp_path, f"{GOOD}\n{keys}", ID="me", KEY="s3cr3t", URL="http://h:1/")

    assert settings.schedule.outside.secret_access_key == "s3cr3t"
    assert settings.schedule.outside.endpoint_url == "http://h:1"
    assert "s3cr3t" not in repr(settings)


def test_a_key_in_the_file_itself_earns_a_warning(tmp_path: Path) -> None:
    found = loaded(tmp_path, f'{GOOD}\naccess_key_id = "a"\nsecret_access_key = "s3cr3t"').warnings

    [warning] = [one for one in found if one.code == "secret-in-file"]
    assert "schedule.secret_access_key" in warning.message
    assert "s3cr3t" not in warning.message


@pytest.mark.parametrize("kind", ["embedded", "none"])
def test_without_one_nothing_is_outside(tmp_path: Path, kind: str) -> None:
    assert not loaded(tmp_path, f'kind = "{kind}"').schedule.is_outside


@pytest.mark.parametrize(
    ("schedule", "key", "message"),
    [
        (f'kind = "eventbridge"\n{QUEUE}', "role_arn", "expected the role"),
        (f'kind = "eventbridge"\n{ROLE}', "trigger_queue_url", 'beside target = "sqs"'),
        (f'kind = "eventbridge"\n{ROLE}\ntarget = "http"', "http_target_arn", 'target = "http"'),
        (f"{GOOD}\n{BUS}", "http_target_arn", 'target = "sqs" has none'),
        (f'{GOOD}\naccess_key_id = "a"', "secret_access_key", "beside access_key_id"),
        (f'{GOOD}\ngroup = "a/b"', "group", "at most 64 letters"),
        (f'{GOOD}\ntarget = "ftp"', "target", 'expected "sqs" or "http"'),
        (f"{GOOD}\noptions = {{ a = 1 }}", "options", "has none"),
        (ROLE, "role_arn", 'kind = "embedded" has none'),
        (f'kind = "none"\n{QUEUE}', "trigger_queue_url", 'kind = "none" has none'),
        (f'kind = "eventbridge"\nrole_arn = "deliver"\n{QUEUE}', "role_arn", "ARN of a role"),
        (GOOD.replace("/triggers", "/triggers.fifo"), "trigger_queue_url", "standard SQS queue"),
        (GOOD.replace("https://", "https://me:pw@"), "trigger_queue_url", "standard SQS queue"),
        (
            f'kind = "eventbridge"\n{ROLE}\ntarget = "http"\nhttp_target_arn = "https://x.com/"',
            "http_target_arn",
            "event bus",
        ),
        (f'{GOOD}\ndead_letter_arn = "lost"', "dead_letter_arn", "standard SQS queue"),
    ],
)
def test_what_does_not_go_together_is_one_problem_at_its_key(
    tmp_path: Path, schedule: str, key: str, message: str
) -> None:
    [(place, said, remedy)] = problems(tmp_path, schedule)

    assert place == f"schedule.{key}"
    assert message in said
    assert remedy
    assert "me:pw" not in said + remedy


def test_to_catch_up_now_is_refused_where_somebody_else_fires(tmp_path: Path) -> None:
    """O-TICK-05: no option without an effect."""
    policy = """
    [stores.s]
    kind = "directory"
    root = "/srv/data"
    [policies.exports]
    version = "v1"
    older_than = "30d"
    schedule = "0 2 * * *"
    catch_up = "now"
    objects = { store = "s", bucket = "b", prefix = "exports/" }
    """

    [(place, said, _)] = problems(tmp_path, GOOD + policy)

    assert place == "policies.exports.catch_up"
    assert '"now" has no effect' in said


PACKAGE = """
from collections.abc import Mapping

class Bell:
    name, target, capabilities, closed = "bell", "bell://tower", None, False

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = options

    def close(self) -> None:
        self.closed = True

    def _none(self, *_: object) -> tuple[()]:
        return ()

    terms = deployed = put = pause = resume = delete = trigger = runs = findings = _none
"""


def test_a_kind_that_another_package_brings_is_given_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    about = site / "bell_scheduler-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "bell_scheduler.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bell-scheduler\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[bestbefore.schedulers]\nbell = bell_scheduler:Bell\n")
    monkeypatch.syspath_prepend(str(site))

    settings = loaded(tmp_path, 'kind = "bell"\noptions = { tower = "north" }')

    assert settings.schedule.is_outside
    with scheduler_of(settings) as scheduler:
        assert scheduler.name == "bell"
        assert scheduler.options == {"tower": "north"}  # type: ignore[attr-defined]
    assert scheduler.closed  # type: ignore[attr-defined]


def test_a_kind_that_nobody_brings_is_refused(tmp_path: Path) -> None:
    [(place, said, _)] = problems(tmp_path, 'kind = "gong"')

    assert place == "schedule.kind"
    assert '"eventbridge"' in said
