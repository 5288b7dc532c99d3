"""From ``bestbefore.toml`` to `Settings`, or to every problem it has."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from bestbefore.app.settings import rules, shape, values
from bestbefore.app.settings.model import (
    POSTGRESQL,
    SQLITE,
    QueueSettings,
    Settings,
    StateSettings,
    StoreSettings,
)
from bestbefore.app.settings.problems import ConfigError, Problem, Unfit, dotted, shown
from bestbefore.app.settings.schema import File, ObjectsSection, PolicySection
from bestbefore.app.settings.sources import Sources
from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Attempts
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.versions import Versions

_DEFAULT_STATE = "sqlite:///bestbefore.db"


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """The configuration in the file *path*, checked whole.

    Relative paths in it are relative to its folder. Raises `ConfigError` with everything that
    has to be corrected, and plans nothing with half of a file.
    """
    raw = _parse(path)
    folder = path.absolute().parent  # not resolve(): a ConfigMap is a link into elsewhere
    file, problems, veiled = shape.check(raw)
    problems += rules.check(raw)
    sources = Sources(folder, environ)
    url = _state_url_of(raw, sources, folder)
    access = {
        name: _access(name, store, sources)
        for name, store in rules.part(raw, "stores").items()
        if isinstance(store, dict) and ("stores", name) not in veiled
    }
    problems += sources.problems
    if file is None or problems:
        raise ConfigError(str(path), problems)
    stores = {
        name: StoreSettings(
            name,
            store.kind,
            region=store.region,
            root=None if store.root is None else folder / store.root,
            **access[name],
        )
        for name, store in file.stores.items()
    }
    policies = {name: _policy(name, policy) for name, policy in file.policies.items()}
    if problems := list(rules.archives(policies, stores)):
        raise ConfigError(str(path), problems)
    settings = Settings(
        path=path,
        state=StateSettings(url, file.state.keep),
        queue=QueueSettings(file.queue.kind, file.queue.lease),
        stores=MappingProxyType(stores),
        policies=MappingProxyType(policies),
        warnings=tuple(_warnings(file)),
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

    return sources.value(rules.part(raw, "state"), ("state",), "url", check) or check(
        _DEFAULT_STATE
    )


def state_url(url: str, folder: Path) -> str:
    """*url* if a state database can be there; raises Unfit, never showing what may be a password.

    A relative SQLite file is relative to *folder*.
    """
    scheme, _, _ = url.partition(":")
    if scheme.startswith("postgres"):
        return _postgresql_url(url, scheme)
    remedy = f'write for example "{_DEFAULT_STATE}"'
    file = url.removeprefix(SQLITE)
    if file == url:
        raise Unfit(f"expected {SQLITE}FILE or {POSTGRESQL}…, found {shown(scheme)}", remedy)
    if not file or file == ":memory:" or file.endswith("/"):
        raise Unfit("expected a file, as the ledger outlives every process", remedy)
    if "?" in file or not file.isprintable() or file.startswith(("~", "file:")):
        raise Unfit(f"expected a plain path, found {shown(file)}", remedy)
    return f"{SQLITE}{folder / file}"


def _postgresql_url(url: str, scheme: str) -> str:
    remedy = f'write "{POSTGRESQL}USER:PASSWORD@HOST:PORT/DATABASE"'
    if not url.startswith(POSTGRESQL):
        raise Unfit(f"expected {POSTGRESQL}…, found {shown(scheme)}", remedy)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Unfit(
            "expected an address with a port that is a number",
            f"{remedy}, with %2F for / and %40 for @ in the password",
        ) from error
    if not parts.path.strip("/") or not url.isprintable():
        raise Unfit("expected the name of a database after the host", remedy)
    return url


def _access(name: str, raw: Mapping[str, Any], sources: Sources) -> dict[str, str | None]:
    place = ("stores", name)
    if raw.get("kind") == "directory":
        return {}  # it has none, and what is there all the same is a problem of its own
    return {
        "endpoint_url": sources.value(raw, place, "endpoint_url", values.endpoint),
        "access_key_id": sources.value(raw, place, "access_key_id"),
        "secret_access_key": sources.value(raw, place, "secret_access_key"),
    }


def _policy(name: str, written: PolicySection) -> Policy:
    return Policy(
        name=name,
        version=written.version,
        owner=written.owner,
        older_than=written.older_than,
        source=_source(written.objects),
        action=written.action,
        archive=Archive(**written.archive.model_dump()) if written.archive else None,
        schedule=written.schedule,
        timezone=written.timezone,
        priority=written.priority,
        reach=Reach(written.max_deletes, written.max_fraction, written.first_run_limit),
        attempts=Attempts(**written.attempts.model_dump()),
    )


def _source(written: ObjectsSection) -> ObjectSource:
    return ObjectSource(
        store=written.store,
        bucket=written.bucket,
        prefix=written.prefix or "",
        match=written.match,
        regex=written.regex,
        min_size=written.min_size,
        max_size=written.max_size,
        folder_markers=written.folder_markers == "delete",
        generation=written.generation,
        keep_generations=written.keep_generations or 0,
        keep_last=written.keep_last or 0,
        keep_last_group=written.keep_last_group,
        keep_last_min_size=written.keep_last_min_size,
        storage_class=written.storage_class,
        tags=written.tags,
        lacks_tags=written.lacks_tags,
        current_pointer=written.current_pointer,
        abort_incomplete_uploads=written.abort_incomplete_uploads,
        versions=Versions(written.versions) if written.versions else None,
        bypass_governance=written.bypass_governance,
    )


def _exposed(settings: Settings) -> Iterator[Problem]:
    """Policies that would, one day, delete what they are made of."""
    own = {"this file": settings.path, "the ledger's evidence": settings.evidence / "operations"}
    if settings.state.url.startswith(SQLITE):
        own["the ledger"] = settings.state.file
    for policy in settings.policies.values():
        source, root = policy.source, settings.stores[policy.source.store].root
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
    for name, store in file.stores.items():
        if store.secret_access_key is not None:
            yield Finding(
                "secret-in-file",
                Level.WARNING,
                f"{dotted(('stores', name, 'secret_access_key'))} stands in the file itself",
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
        prefix = policy.objects.prefix or ""
        if "*" in prefix:
            yield Finding(
                "pattern-in-prefix",
                Level.WARNING,
                f"{dotted(('policies', name, 'objects', 'prefix'))} is {shown(prefix)}, "
                "where * stands for itself",
                "use match for patterns",
            )
