"""A configuration that is wrong: each error names file, key and remedy."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bestbefore.app.settings import ConfigError, load
from bestbefore.app.settings.problems import Problem

GOOD = """
[state]
[queue]
[schedule]
[stores.exports]
kind = "s3"
[policies.weekly]
version = "v1"
older_than = "30d"
[policies.weekly.objects]
store = "exports"
bucket = "digests"
prefix = "exports/"
"""

Refused = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Load a file that must be refused, and return its problems."""

    def refused(text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
        file = tmp_path / "bestbefore.toml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load(file, environ or {})
        for problem, line in zip(
            caught.value.problems, str(caught.value).splitlines(), strict=True
        ):
            assert line.startswith(f"{file}: ")
            assert problem.message in line
            assert problem.remedy
            assert line.endswith(problem.remedy)
        return caught.value.problems

    return refused


def edited(section: str, line: str) -> str:
    """`GOOD` with *line* in *section*, in place of the line with the same key."""
    key = line.partition(" =")[0]
    head, header, tail = GOOD.partition(f"[{section}]")
    body, bracket, rest = tail.partition("\n[")
    kept = [old for old in body.splitlines() if old.partition(" =")[0] != key]
    return "".join((head, header, "\n", line, "\n".join(["", *kept]), bracket or "\n", rest))


def test_the_file_the_cases_start_from_is_good(tmp_path: Path) -> None:
    file = tmp_path / "bestbefore.toml"
    file.write_text(GOOD)

    assert list(load(file, {}).policies) == ["weekly"]


def test_to_catch_up_now_somebody_has_to_start_runs(refused: Refused) -> None:
    """O-TICK-05: no option without an effect."""
    text = edited("policies.weekly", 'schedule = "0 2 * * *"\ncatch_up = "now"')

    (problem,) = refused(text.replace("[schedule]", '[schedule]\nkind = "none"'))

    assert problem.place == ("policies", "weekly", "catch_up")
    assert 'kind = "none" starts no runs' in problem.message


OBJECTS = "policies.weekly.objects"
POLICY = "policies.weekly"
POINTED = "generation = '(?P<generation>a)'\ncurrent_pointer"
ELEVEN = ", ".join(f"t{number} = ''" for number in range(11))

WRONG = [
    # unknown keys (O-CONF-02)
    (POLICY, 'retension = "90d"', "retension", "unknown key", 'did you mean "older_than"?'),
    (POLICY, 'older-than = "90d"', "older-than", "unknown key", 'write "older_than"'),
    (POLICY, "max_delets = 3", "max_delets", "unknown key", 'did you mean "max_deletes"?'),
    (POLICY, 'exlude = ["a"]', "exlude", "unknown", 'mean "regex" in [policies.weekly.objects]'),
    (POLICY, 'match = "a"', "match", "unknown key", "belongs in [policies.weekly.objects]"),
    (OBJECTS, "max_deletes = 3", "max_deletes", "unknown key", "belongs in [policies.weekly]"),
    (OBJECTS, 'zone = "a"', "zone", "unknown key", "takes store, bucket, prefix"),
    (OBJECTS, 'lease = "60s"', "lease", "unknown key", '"lease" belongs in [queue]'),
    ("queue", 'match = "a"', "match", "unknown key", "belongs in [policies.NAME.objects]"),
    ("queue", 'version = "a"', "version", "unknown key", "belongs in [policies.NAME]"),
    ("stores.exports", 'regoin = "a"', "regoin", "unknown key", 'did you mean "region"?'),
    # durations (O-CONF-01, O-CONF-03, O-CONF-04)
    (POLICY, "older_than = 30", "older_than", '"30" has no unit', 'write one of "36h"'),
    (POLICY, 'older_than = "30"', "older_than", "has no unit", 'write one of "36h"'),
    (POLICY, 'older_than = "30m"', "older_than", "minutes or months", '"30min" or "30mo"'),
    (POLICY, 'older_than = "1M"', "older_than", "minutes or months", '"1min" or "1mo"'),
    (POLICY, "older_than = 0", "older_than", "has no unit", "write one of"),
    (POLICY, 'older_than = "0d"', "older_than", "select everything", "write one of"),
    (POLICY, 'older_than = "0s"', "older_than", "select everything", "write one of"),
    (POLICY, 'older_than = "999999999d"', "older_than", "longer than 200 years", "write one"),
    (POLICY, "older_than = true", "older_than", "found true", "write one of"),
    (POLICY, "older_than = 2026-01-01", "older_than", "found 2026-01-01", "write one of"),
    # schedules
    ("schedule", 'kind = "cron"', "kind", 'expected "embedded" or "eventbridge"', "write"),
    ("schedule", 'grace = "5s"', "grace", "expected 1min to 1d", '"15min"'),
    ("schedule", 'early_tolerance = "1h"', "early_tolerance", "expected 1s to 5min", '"60s"'),
    ("schedule", 'lease = "60s"', "lease", "unknown key", "belongs in [queue]"),
    (POLICY, 'catch_up = "never"', "catch_up", 'expected "next" or "now"', "write"),
    (POLICY, 'catch_up = "now"', "catch_up", "a policy without a schedule", "remove it"),
    # the rest of a policy
    (POLICY, 'version = ""', "version", "expected a text", "write a value"),
    (POLICY, "version = 2", "version", "expected a text in quotes, found 2", "write a text"),
    (POLICY, 'version = "a\\nb"', "version", "expected one line", "one line"),
    (POLICY, 'owner = "a\\u001b[2J"', "owner", "expected one line", "one line"),
    (POLICY, 'version = "${V}"', "version", "found", "variables are not filled in"),
    (POLICY, 'schedule = "0 0 30 2 *"', "schedule", "never fires", "0 2 * * *"),
    (POLICY, 'schedule = "0 0 2 * * *"', "schedule", "has 6 fields where five", "0 2 * * *"),
    (POLICY, 'schedule = ""', "schedule", "expected a cron expression", "remove the key"),
    (POLICY, 'timezone = "Europe/Berln"', "timezone", "Europe/Berlin", "write for example"),
    (POLICY, 'action = "drop"', "action", 'or "archive", found "drop"', 'write "delete" or'),
    (POLICY, "max_deletes = 0", "max_deletes", "at least 1, found 0", "at least 1"),
    (POLICY, "max_deletes = true", "max_deletes", "whole number, found true", "whole number"),
    (POLICY, "max_deletes = 1.5", "max_deletes", "a whole number, found 1.5", "whole number"),
    (POLICY, f"max_deletes = 0x1{'0' * 5000}", "max_deletes", "very large number", "at most"),
    (POLICY, "max_fraction = 0", "max_fraction", "more than 0.0, found 0", "more than"),
    (POLICY, "max_fraction = 50", "max_fraction", "at most 1.0, found 50", "at most 1.0"),
    (POLICY, "max_fraction = nan", "max_fraction", "found nan", "write a number"),
    (POLICY, "first_run_limit = -1", "first_run_limit", "at least 0", "at least 0"),
    (POLICY, "attempts = { transient = 0 }", "attempts.transient", "at least 1", "at least 1"),
    (POLICY, "attempts = { unknown = 101 }", "attempts.unknown", "at most 100", "at most 100"),
    (POLICY, "attempts = { throttled = 3 }", "attempts.throttled", "unknown key", "transient, "),
    (POLICY, "attempts = 3", "attempts", "expected a section", "[policies.weekly.attempts]"),
    # scope (O-SCOPE-01, O-SCOPE-02)
    (OBJECTS, 'prefix = "exports/2026"', "prefix", 'ends in "/"', "prefix_is_literal = true"),
    (OBJECTS, 'prefix = ""', "prefix", 'found ""', "whole_bucket = true"),
    (OBJECTS, 'prefix = "   "', "prefix", 'found "   "', "whole_bucket = true"),
    (OBJECTS, 'prefix = "${TENANT_PREFIX}"', "prefix", "TENANT_PREFIX", "not filled in here"),
    (OBJECTS, 'prefix = "a/${TENANT_PREFIX}/"', "prefix", "TENANT", "not filled in here"),
    (OBJECTS, f'prefix = "{"ö" * 513}/"', "prefix", "no key is longer", "shorten"),
    (OBJECTS, "prefix = 3", "prefix", "a text in quotes, found 3", "write a text"),
    (OBJECTS, "whole_bucket = true", "prefix", "found both", "remove one"),
    (OBJECTS, 'whole_bucket = "yes"', "whole_bucket", "true or false", "true or false"),
    (OBJECTS, 'store = "export"', "store", 'no store "export"', 'did you mean "exports"?'),
    (OBJECTS, 'store = "zzz"', "store", 'no store "zzz"', "add [stores.zzz] or use exports"),
    (OBJECTS, 'bucket = ""', "bucket", "expected a text", "write a value"),
    (OBJECTS, 'bucket = "s3://digests/x"', "bucket", "name of a bucket", 'bucket = "digests"'),
    (OBJECTS, 'bucket = "${B}"', "bucket", "expected the value itself", "not filled in here"),
    # selection and protection
    (OBJECTS, 'regex = "("', "regex", "expected a regular expression", "re syntax"),
    (OBJECTS, 'regex = "a{99999999999}"', "regex", "too large", "re syntax"),
    (OBJECTS, 'regex = "[[a]b]"', "regex", "nested set", "re syntax"),
    (OBJECTS, 'match = "a"\nregex = "a"', "match", "found both", "keep one"),
    (OBJECTS, 'match = ""', "match", "expected a text", "remove the key"),
    (OBJECTS, "min_size = 10", "min_size", "size as a text with a unit", '"10KB"'),
    (OBJECTS, 'max_size = "10"', "max_size", "size as a text with a unit", '"10KB"'),
    (OBJECTS, 'max_size = "1.5MB"', "max_size", "size as a text with a unit", '"10KB"'),
    (OBJECTS, 'max_size = "1mb"', "max_size", "size as a text with a unit", '"1MB"'),
    (OBJECTS, 'min_size = "2B"\nmax_size = "1B"', "min_size", "more than max_size", "correct"),
    (OBJECTS, 'folder_markers = "drop"', "folder_markers", '"keep" or "delete"', "write"),
    (OBJECTS, "generation = 'a'\nkeep_generations = 1", "generation", "group named", "(?P<gen"),
    (OBJECTS, "generation = '(?P<generation>a)'", "keep_generations", "protect nothing", "add"),
    (OBJECTS, "keep_generations = 1", "generation", "beside keep_generations", "add generation"),
    (OBJECTS, "keep_last = 0", "keep_last", "at least 1", "at least 1"),
    (OBJECTS, "keep_last_group = 'a'", "keep_last", "protect nothing", "add keep_last"),
    (OBJECTS, "keep_last_min_size = '1B'", "keep_last", "protect nothing", "add keep_last"),
    (OBJECTS, "current_pointer = 'a'", "generation", "beside current_pointer", "add generation"),
    (OBJECTS, f"{POINTED} = ''", "current_pointer", "expected a text", "write a value"),
    (OBJECTS, f"{POINTED} = 's3://b/a'", "current_pointer", "key in the policy's", "exports/cur"),
    (OBJECTS, f"{POINTED} = '{'ö' * 513}'", "current_pointer", "1,026 bytes", "the object's key"),
    (OBJECTS, 'storage_class = "standard_ia"', "storage_class", "spell it", '"STANDARD_IA"'),
    (OBJECTS, 'storage_class = ["A", ""]', "storage_class", "expected a text", "remove the key"),
    (OBJECTS, "storage_class = []", "storage_class", "or a list of texts", "STANDARD_IA"),
    (OBJECTS, "storage_class = 3", "storage_class", "or a list of texts", "STANDARD_IA"),
    (OBJECTS, "tags = {}", "tags", "expected tags with their values", "team ="),
    (OBJECTS, 'tags = ["team"]', "tags", "expected tags with their values", "team ="),
    (OBJECTS, "tags = { team = 3 }", "tags", 'value of the tag "team", found 3', "team ="),
    (OBJECTS, f"tags = {{ {ELEVEN} }}", "tags", "more than 10 tags", "ask for fewer"),
    (OBJECTS, f"lacks_tags = ['{'k' * 129}']", "lacks_tags", "name of a tag", "1 to 128"),
    (OBJECTS, "lacks_tags = [1]", "lacks_tags", "or a list of texts", "legal-hold"),
    (OBJECTS, "lacks_tags = ['a']\ntags = { a = '1' }", "lacks_tags", "nothing fits", "remove it"),
    (OBJECTS, 'tags = { a = "1" }\nkeep_last = 1', "keep_last", "without tags", "remove one"),
    # state and queue
    ("queue", 'lease = "59s"', "lease", "expected 60s to 12h", '"5min"'),
    ("queue", 'lease = "13h"', "lease", "expected 60s to 12h", '"5min"'),
    ("queue", 'lease = "1mo"', "lease", "expected a duration", '"5min"'),
    ("queue", "lease = 60", "lease", "expected a duration, found 60", '"5min"'),
    ("queue", 'kind = "kafka"', "kind", 'expected "state"', "install the package that brings"),
    ("queue", 'kind = "rabitmq"', "kind", 'expected "state"', 'did you mean "rabbitmq"?'),
    ("queue", 'prefix = "a"', "prefix", 'of kind "state" has none', 'kind = "bullmq"'),
    ("queue", "options = {}", "options", 'of kind "state" has none', "into [queue]"),
    ("queue", 'kind = "sqs"', "queue_url", "expected this key", "amazonaws.com"),
    ("queue", 'kind = "rabbitmq"', "url", "expected this key", "RABBITMQ_URL"),
    ("queue", 'kind = "bullmq"\nurl = "amqp://u:geheim@h"', "url", 'found "amqp"', "redis://"),
    ("queue", 'kind = "bullmq"\nurl = "redis://h:geheim"', "url", "a port", "redis://USER"),
    ("queue", 'kind = "sqs"\nqueue_url = "https://u:geheim@x/q"', "queue_url", "the URL", "copy"),
    (
        "queue",
        'kind = "sqs"\nqueue_url = "https://x/1/q"\naccess_key_id = "a"',
        "secret_access_key",
        "beside access_key_id",
        "remove both",
    ),
    (
        "queue",
        'kind = "bullmq"\nurl = "redis://h"\nqueue = "a:b"',
        "queue",
        "the name of a queue",
        "hyphens",
    ),
    ("state", 'url = "mysql://u:geheim@h/d"', "url", 'found "mysql"', "sqlite:///"),
    ("state", 'url = "postgres://u:geheim@h/d"', "url", 'found "postgres"', "+psycopg://"),
    ("state", 'url = "postgresql://u:geheim@h/d"', "url", 'found "postgresql"', "USER:PASSWORD"),
    ("state", 'url = "postgresql+psycopg://u:geheim@h"', "url", "name of a database", "/DATABASE"),
    ("state", 'url = "postgresql+psycopg://u:ge/heim@h/d"', "url", "a port that is", "%2F for /"),
    ("state", 'url = "sqlite://"', "url", "expected sqlite:///FILE", "sqlite:///"),
    ("state", 'url = "sqlite:///:memory:"', "url", "outlives every process", "sqlite:///"),
    ("state", 'url = "sqlite:///a.db?mode=ro"', "url", "a plain path", "sqlite:///"),
    ("state", 'url = "sqlite:///a\\u0000.db"', "url", "a plain path", "sqlite:///"),
    ("state", 'url = "sqlite:///~/a.db"', "url", "a plain path", "sqlite:///"),
    ("state", 'url = "sqlite:///${HOME}/a"', "url", "found a variable", "url_env"),
    (OBJECTS, 'abort_incomplete_uploads = "yes"', "abort_incomplete_uploads", "true or", "true"),
    # stores
    ("stores.exports", f"kind = 0x1{'0' * 5000}", "kind", "a text in quotes", "write a text"),
    ("stores.exports", "kind = 3", "kind", "expected a text in quotes", "write a text"),
    ("stores.exports", 'endpoint_url = "127.0.0.1:80"', "endpoint_url", "address", "http://"),
    ("stores.exports", 'endpoint_url = "http://u:p@h"', "endpoint_url", "without user", "http"),
    ("stores.exports", 'endpoint_url = "http://h:99999"', "endpoint_url", "address", "http"),
    ("stores.exports", 'access_key_id = "a"', "secret_access_key", "beside access", "chain"),
]


@pytest.mark.parametrize(("section", "line", "key", "message", "remedy"), WRONG)
def test_one_wrong_key_is_one_problem_at_its_place(
    refused: Refused, section: str, line: str, key: str, message: str, remedy: str
) -> None:
    """O-CONF-01, O-CONF-02, O-CONF-03, O-CONF-04, O-SCOPE-01, O-SCOPE-02, O-CRON-03, O-CRON-04"""
    [problem] = refused(edited(section, line))

    assert ".".join(problem.place) == f"{section}.{key}"
    assert message in problem.message
    assert remedy in problem.remedy
    assert "geheim" not in str(problem)


def test_a_store_whose_files_have_no_tags_is_told_so(refused: Refused) -> None:
    lines = 'tags = { a = "1" }\nlacks_tags = "b"\nstorage_class = "GLACIER"'
    directory = edited(OBJECTS, lines).replace('kind = "s3"', 'kind = "directory"\nroot = "/data"')

    found = {p.place[-1]: p.message for p in refused(directory) if p.place[0] == "policies"}

    assert found.keys() == {"tags", "lacks_tags", "storage_class"}
    assert all("where files have no such thing" in message for message in found.values())


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ('version = "v1"', "policies.weekly.version"),
        ('older_than = "30d"', "policies.weekly.older_than"),
        ('kind = "s3"', "stores.exports.kind"),
        ('store = "exports"', "policies.weekly.objects.store"),
        ('bucket = "digests"', "policies.weekly.objects.bucket"),
        ('prefix = "exports/"', "policies.weekly.objects.prefix"),
    ],
)
def test_a_required_key_that_is_absent_is_named(refused: Refused, key: str, place: str) -> None:
    """O-SCOPE-02: also an absent prefix, which never means all of a bucket."""
    [problem] = refused(GOOD.replace(key, ""))

    assert ".".join(problem.place) == place
    assert "found none" in problem.message
    assert place.rpartition(".")[2] in problem.remedy


def test_a_policy_without_objects_is_told_to_add_them(refused: Refused) -> None:
    [problem] = refused(GOOD.partition("[policies.weekly.objects]")[0])

    assert problem.remedy.startswith("add [policies.weekly.objects]")


@pytest.mark.parametrize("name", ["Weekly", "week ly", "-weekly", "", "wöchentlich", "a/b"])
def test_names_of_policies_are_plain(refused: Refused, name: str) -> None:
    [problem] = refused(GOOD.replace("policies.weekly", f'policies."{name}"'))

    assert problem.place == ("policies", name)
    assert "lower-case letters" in problem.remedy


@pytest.mark.parametrize("name", ["Exports", "a b", "a/b"])
def test_names_of_stores_are_plain(refused: Refused, name: str) -> None:
    text = GOOD.replace("stores.exports", f'stores."{name}"')

    [problem] = refused(text.replace('store = "exports"', f'store = "{name}"'))

    assert problem.place == ("stores", name)
    assert "lower-case letters" in problem.remedy


def test_all_problems_are_reported_together_sorted_by_place(refused: Refused) -> None:
    problems = refused(
        """
        [polices.weekly]
        [queue]
        lease = "1s"
        [stores.exports]
        kind = "s3"
        endpoint_url_env = "NOWHERE"
        [policies.b]
        version = "v1"
        older_than = 30
        objects = { store = "exprts", bucket = "b", prefix = "", regex = "(" }
        [policies.a]
        older_than = "30d"
        objects = { store = "exports", bucket = "b", prefix = "a/" }
        """
    )

    assert [".".join(problem.place) for problem in problems] == [
        "polices",
        "policies.a.version",
        "policies.b.objects.prefix",
        "policies.b.objects.regex",
        "policies.b.objects.store",
        "policies.b.older_than",
        "queue.lease",
        "stores.exports.endpoint_url_env",
    ]


def test_one_broken_policy_refuses_the_whole_file(refused: Refused) -> None:
    healthy = GOOD.partition("[policies")[2].replace("weekly", "healthy")

    [problem] = refused(GOOD.replace("30d", "36525000d") + "[policies" + healthy)

    assert problem.place == ("policies", "weekly", "older_than")


@pytest.mark.parametrize("text", ["policies = 3", "stores = []", 'queue = "state"', "state = 1"])
def test_a_value_where_a_section_belongs_is_refused(refused: Refused, text: str) -> None:
    [problem] = refused(text)

    assert "expected a section" in problem.message
    assert problem.remedy.startswith("write [")


@pytest.mark.parametrize("text", ["policies.weekly = 3", "stores.exports = []"])
def test_a_value_where_a_named_section_belongs_is_refused(refused: Refused, text: str) -> None:
    [problem] = refused(text)

    assert problem.remedy == f"write [{text.partition(' ')[0]}] on a line of its own"


SECRET = edited("stores.exports", 'access_key_id = "a"')


@pytest.mark.parametrize(
    ("line", "environ", "message"),
    [
        ('secret_access_key_env = "S"', {}, "the environment variable S is not set"),
        ('secret_access_key_env = "S"', {"S": ""}, "the environment variable S is empty"),
        ('secret_access_key_env = "S"', {"S": " \n"}, "the environment variable S is empty"),
        ('secret_access_key_env = "$S"', {"S": "x"}, "expected the name of an environment"),
        ('secret_access_key_file = "none"', {}, "the file none cannot be read (No such file"),
        ('secret_access_key_file = "empty"', {}, "the file empty is empty"),
        ('secret_access_key_file = "."', {}, "the file . cannot be read (Is a directory"),
        ('secret_access_key_file = "binary"', {}, "the file binary is not UTF-8"),
        ('secret_access_key_file = "a\\u0000"', {}, "expected the path of a file"),
        ('secret_access_key_file = "huge"', {}, "the file huge is larger than 64 KiB"),
        ('secret_access_key = ""', {}, 'expected a text, found ""'),
    ],
)
def test_a_source_without_a_value_is_refused_by_name(
    refused: Refused, tmp_path: Path, line: str, environ: Mapping[str, str], message: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge").write_text("x" * 70_000)

    [problem] = refused(
        SECRET.replace('access_key_id = "a"', f'access_key_id = "a"\n{line}'), environ
    )

    assert ".".join(problem.place) == "stores.exports." + line.partition(" ")[0]
    assert message in problem.message


def test_a_value_has_one_source(refused: Refused) -> None:
    [problem] = refused('[state]\nurl = "sqlite:///a.db"\nurl_env = "B"\n', {"B": "sqlite:///b.db"})

    assert problem.place == ("state", "url")
    assert problem.message == "expected one source, found url and url_env"


@pytest.mark.parametrize(
    "line",
    [
        "secret_access_key = 314159",
        'secret_access_key_env = "wJalr/314159"',
        'endpoint_url = "ftp://user:314159@host"',
    ],
)
def test_no_message_shows_a_secret(refused: Refused, line: str) -> None:
    problems = refused(edited("stores.exports", line))

    assert problems
    assert "314159" not in str(problems)


def test_versions_is_one_of_three(refused: Refused) -> None:
    (problem,) = refused(edited("policies.weekly.objects", 'versions = "all"'))
    assert problem.place == ("policies", "weekly", "objects", "versions")
    assert problem.message == 'expected "marker" or "noncurrent" or "purge", found "all"'


@pytest.mark.parametrize("versions", ["", 'versions = "marker"\n'])
def test_a_bypass_needs_versions_that_are_removed(refused: Refused, versions: str) -> None:
    text = edited("policies.weekly.objects", f"{versions}bypass_governance = true")
    (problem,) = refused(text)
    assert problem.place[-1] == "bypass_governance"
    assert '"noncurrent" or "purge"' in problem.message


def test_the_last_n_mean_nothing_where_only_older_versions_go(refused: Refused) -> None:
    lines = 'versions = "noncurrent"\nkeep_last = 3'
    (problem,) = refused(edited("policies.weekly.objects", lines))
    assert problem.place[-1] == "keep_last"
    assert "does not count versions of one key" in problem.message


@pytest.mark.parametrize("key", ['tags = { team = "growth" }', 'lacks_tags = ["keep"]'])
def test_tags_are_not_those_of_single_versions(refused: Refused, key: str) -> None:
    (problem,) = refused(edited("policies.weekly.objects", f'versions = "purge"\n{key}'))
    assert problem.place[-1] == key.split(" ")[0]
    assert "single versions" in problem.message
