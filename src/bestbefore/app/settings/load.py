"""From ``bestbefore.toml`` to `Settings`, or to every problem it has."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from bestbefore.app import plugins
from bestbefore.app.settings import (
    archive_rules,
    built,
    kinds,
    queue_values,
    row_rules,
    row_values,
    rules,
    serve_values,
    shape,
    values,
)
from bestbefore.app.settings.model import (
    SQLITE,
    InfraiSettings,
    Settings,
    StateSettings,
    StoreSettings,
)
from bestbefore.app.settings.problems import ConfigError, Place, Problem, dotted, shown
from bestbefore.app.settings.raw import part
from bestbefore.app.settings.schema import File, ScheduleSection, StoreSection
from bestbefore.app.settings.sources import Sources
from bestbefore.app.settings.urls import DEFAULT_STATE, database_url, state_url
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import ObjectSource


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """The configuration in the file *path*, checked whole.

    Relative paths in it are relative to its folder. Raises `ConfigError` with everything that
    has to be corrected, and plans nothing with half of a file.
    """
    raw = _parse(path)
    folder = path.absolute().parent  # not resolve(): a ConfigMap is a link into elsewhere
    file, problems = shape.check(raw)
    problems += rules.check(raw)
    sources = Sources(folder, environ)
    url = _state_url_of(raw, sources, folder)
    access = {
        name: _access(("stores", name), store, sources)
        for name, store in part(raw, "stores").items()
        if isinstance(store, dict)
    }
    options = {
        name: sources.table(part(store, "options"), ("stores", name, "options"))
        for name, store in part(raw, "stores").items()
        if isinstance(store, dict)
    }
    addresses = {
        name: _addresses(name, database, sources, folder)
        for name, database in part(raw, "databases").items()
        if isinstance(database, dict)
    }
    queue = _queue(part(raw, "queue"), sources)
    api_key = sources.value(part(raw, "infrai"), ("infrai",), "api_key")
    serve = part(raw, "serve")
    hmac_secrets = sources.values(serve, ("serve",), "hmac_secret", serve_values.hmac_secret)
    trigger_secrets = sources.values(
        serve, ("serve",), "trigger_secret", serve_values.trigger_secret
    )
    scheduler = _access(("schedule",), part(raw, "schedule"), sources)
    problems += sources.problems
    if file is None or problems:
        raise ConfigError(str(path), problems)
    stores = {
        name: StoreSettings(
            name,
            store.kind,
            region=store.region,
            root=None if store.root is None else folder / store.root,
            options=options[name],
            **access[name],
        )
        for name, store in file.stores.items()
    }
    databases = {
        name: built.database(name, database, *addresses[name])
        for name, database in file.databases.items()
    }
    policies = built.policies(file.policies, databases)
    if problems := [
        *archive_rules.places(policies, stores),
        *row_rules.throttles(databases),
        *row_rules.tables(policies, databases, url),
    ]:
        raise ConfigError(str(path), problems)
    settings = Settings(
        path=path,
        state=StateSettings(url, file.state.keep),
        queue=built.queue(file.queue, queue),
        infrai=InfraiSettings(api_key, file.infrai.base_url),
        serve=built.serve(file.serve, hmac_secrets, trigger_secrets),
        stores=MappingProxyType(stores),
        databases=MappingProxyType(databases),
        policies=MappingProxyType(policies),
        warnings=tuple(_warnings(file)),
        schedule=built.schedule(file.schedule, scheduler),
    )
    if exposed := list(_exposed(settings)):
        raise ConfigError(str(path), exposed)
    return settings


def _parse(path: Path) -> dict[str, Any]:
    def refuse(message: str, remedy: str) -> ConfigError:
        return ConfigError(str(path), [Problem((), message, remedy)])

    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise refuse(
            "there is no such file", "write one with `bestbefore init`, or name it with --config"
        ) from error
    except OSError as error:
        raise refuse(f"it cannot be read ({error.strerror})", "name a readable file") from error
    except UnicodeDecodeError as error:
        raise refuse(f"it is not UTF-8 text ({error.reason})", "save it as UTF-8") from error
    except RecursionError as error:
        raise refuse("it is nested too deeply", "write it as `bestbefore init` does") from error
    except ValueError as error:
        # tomllib names line and column. Its quoting rule is what people trip over: older_than = 30d
        raise refuse(
            f"it is not valid TOML: {error}", 'correct that line; texts need quotes, as in "30d"'
        ) from error


def _state_url_of(raw: Mapping[str, Any], sources: Sources, folder: Path) -> str:
    def check(url: str) -> str:
        return state_url(url, folder)

    return sources.value(part(raw, "state"), ("state",), "url", check) or check(DEFAULT_STATE)


def _queue(raw: Mapping[str, Any], sources: Sources) -> dict[str, Any]:
    """What leads to a broker, and may be a secret; or the options of an adapter of a package."""
    place, kind = ("queue",), raw.get("kind")
    checks: dict[str, Callable[[str], str] | None] = {
        "queue_url": queue_values.queue_url,
        "dead_letter_url": queue_values.queue_url,
        "endpoint_url": values.endpoint,
        "access_key_id": None,
        "secret_access_key": None,
        "url": lambda url: queue_values.broker_url(url, kind),
    }
    found = {name: sources.value(raw, place, name, check) for name, check in checks.items()}
    return {**found, "options": sources.table(part(raw, "options"), (*place, "options"))}


def _access(place: Place, raw: Mapping[str, Any], sources: Sources) -> dict[str, str | None]:
    kind = raw.get("kind")
    if kind == "directory" or kinds.brought_along(kind, kinds.STORES, plugins.STORES):
        return {}  # it has none, and what is there all the same is a problem of its own
    return {
        "endpoint_url": sources.value(raw, place, "endpoint_url", values.endpoint),
        "access_key_id": sources.value(raw, place, "access_key_id"),
        "secret_access_key": sources.value(raw, place, "secret_access_key"),
    }


def _addresses(
    name: str, raw: Mapping[str, Any], sources: Sources, folder: Path
) -> tuple[str, str | None]:
    """Where a database is, empty where that is a problem; and what its throttle asks."""

    def check(url: str) -> str:
        return database_url(url, folder)

    place = ("databases", name)
    throttle = (*place, "throttle")
    return (
        sources.value(raw, place, "url", check) or "",
        sources.value(part(raw, "throttle"), throttle, "http", row_values.address),
    )


def _exposed(settings: Settings) -> Iterator[Problem]:
    """Policies that would, one day, delete what they are made of."""
    own = {"this file": settings.path, "the ledger's evidence": settings.evidence / "operations"}
    if settings.state.url.startswith(SQLITE):
        own["the ledger"] = settings.state.file
    for database in settings.databases.values():
        if database.url.startswith(SQLITE):
            own[f"databases.{database.name}"] = Path(database.url.removeprefix(SQLITE))
    for policy in settings.policies.values():
        source = policy.source
        if not isinstance(source, ObjectSource):
            continue
        root = settings.stores[source.store].root
        if root is None:
            continue
        bucket = (root / source.bucket).resolve()
        for name, file in own.items():
            there = file.resolve()
            if there.is_relative_to(bucket) and str(there.relative_to(bucket)).startswith(
                source.prefix
            ):
                yield Problem(
                    ("policies", policy.name, "objects", "prefix"),
                    f"{name} lies among the files that it describes ({there})",
                    "move it out of the bucket, or narrow the prefix",
                )


def _warnings(file: File) -> Iterator[Finding]:
    if file.state.url is not None and urlsplit(file.state.url).password is not None:
        yield Finding(
            "secret-in-file",
            Level.WARNING,
            "state.url holds a password in the file itself",
            "use url_env or url_file, or leave it to PGPASSWORD or ~/.pgpass",
        )
    for name, database in file.databases.items():
        if database.url is not None and urlsplit(database.url).password is not None:
            yield Finding(
                "secret-in-file",
                Level.WARNING,
                f"{dotted(('databases', name, 'url'))} holds a password in the file itself",
                "use url_env or url_file",
            )
    if file.queue.url is not None and urlsplit(file.queue.url).password is not None:
        yield Finding(
            "secret-in-file",
            Level.WARNING,
            "queue.url holds a password in the file itself",
            "use url_env or url_file",
        )
    written = (("queue.secret_access_key", file.queue.secret_access_key),
               ("infrai.api_key", file.infrai.api_key))  # fmt: skip
    for key, value in written:
        if value is not None:
            name = key.partition(".")[2]
            yield Finding(
                "secret-in-file",
                Level.WARNING,
                f"{key} stands in the file itself",
                f"use {name}_env or {name}_file",
            )
    for name in ("hmac_secret", "trigger_secret"):
        if getattr(file.serve, name):
            yield Finding(
                "secret-in-file",
                Level.WARNING,
                f"serve.{name} stands in the file itself",
                f"use {name}_env or {name}_file",
            )
    sections: dict[Place, ScheduleSection | StoreSection] = {("schedule",): file.schedule}
    sections |= {("stores", name): store for name, store in file.stores.items()}
    for place, section in sections.items():
        if section.secret_access_key is not None:
            yield Finding(
                "secret-in-file",
                Level.WARNING,
                f"{dotted((*place, 'secret_access_key'))} stands in the file itself",
                "use secret_access_key_env or secret_access_key_file",
            )
    if not file.policies:
        yield Finding(
            "no-policies", Level.WARNING, "the file holds no policy", "add [policies.NAME]"
        )
    for name, policy in file.policies.items():
        if policy.older_than.under_a_day:
            yield Finding(
                "older-than-under-a-day",
                Level.WARNING,
                f"{dotted(('policies', name, 'older_than'))} is {policy.older_than}, "
                "less than a day",
                "make sure that this is meant",
            )
        prefix = policy.objects and policy.objects.prefix
        if prefix and "*" in prefix:
            yield Finding(
                "pattern-in-prefix",
                Level.WARNING,
                f"{dotted(('policies', name, 'objects', 'prefix'))} is {shown(prefix)}, "
                "where * stands for itself",
                "use match for patterns",
            )
