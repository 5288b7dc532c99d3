"""Values that may stand in the file, in an environment variable, or in a file of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bestbefore.app.settings.problems import Place, Problem, Unfit, kind
from bestbefore.app.settings.values import variable

SECRETS = (
    "url",
    "endpoint_url",
    "access_key_id",
    "secret_access_key",
    "http",
    "hmac_secret",
    "trigger_secret",
    "queue_url",
    "dead_letter_url",
    "api_key",
)
"""Keys that also come as ``*_env`` and ``*_file``, and whose values no message shows."""

_MOST_BYTES = 64 * 1024


def sources_of(name: str) -> tuple[str, str, str]:
    """The keys that *name* may come from."""
    return name, f"{name}_env", f"{name}_file"


class Sources:
    """Resolves such values and keeps the problems met on the way."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self.problems: list[Problem] = []

    def value(
        self,
        section: Mapping[str, Any],
        place: Place,
        name: str,
        check: Callable[[str], str] | None = None,
    ) -> str | None:
        """The value of *name* in *section*, wherever it comes from; None without one."""
        given = [key for key in (name, f"{name}_env", f"{name}_file") if key in section]
        if len(given) > 1:
            self._problem(
                (*place, name), f"expected one source, found {' and '.join(given)}", "keep one"
            )
            return None
        if not given or not isinstance(written := section[given[0]], str) or not written.strip():
            return None  # where it is given, its type or emptiness is a problem of its own
        where = (*place, given[0])
        try:
            value = self._read(given[0], name, written)
            return check(value) if check else value
        except Unfit as fault:
            self._problem(where, fault.message, fault.remedy)
            return None

    def values(
        self,
        section: Mapping[str, Any],
        place: Place,
        name: str,
        check: Callable[[str], str] | None = None,
    ) -> tuple[str, ...]:
        """As `value`, where each source may also be a list; empty without one."""
        given = [key for key in (name, f"{name}_env", f"{name}_file") if key in section]
        written = section[given[0]] if len(given) == 1 else None
        found = (
            [self.value({given[0]: one}, place, name, check) for one in written]
            if isinstance(written, list)
            else [self.value(section, place, name, check)]
        )
        return tuple(value for value in found if value is not None)

    def table(self, section: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
        """*section* as an adapter of another package gets it: with *NAME* where ``NAME_env`` or
        ``NAME_file`` stood, in tables within it too. Everything else is as it was written."""
        found: dict[str, Any] = {}
        for key, written in section.items():
            name = key.removesuffix("_env").removesuffix("_file")
            if isinstance(written, dict):
                found[key] = self.table(written, (*place, key))
            elif name == key:
                found[key] = written
            elif not isinstance(written, str) or not written.strip():
                fault = f"expected where {name} is, found {kind(written)}"
                self._problem((*place, key), fault, "write a text that says something")
            elif (value := self.value(section, place, name)) is not None:
                found[name] = value
        return found

    def _read(self, key: str, name: str, written: str) -> str:
        if key == name:
            value, origin = written, "the file itself"
            if "${" in value:
                raise Unfit(
                    "expected the value itself, found a variable",
                    f"write {name}_env with the variable's name",
                )
        elif key.endswith("_env"):
            origin = f"the environment variable {variable(written)}"
            if written not in self._environ:
                raise Unfit(f"{origin} is not set", "set it, or name another one")
            value = self._environ[written]
        else:
            origin = f"the file {written}"
            value = self._contents(written, origin)
        value = value.strip()
        if not value:
            raise Unfit(f"{origin} is empty", "give it a value")
        return value

    def _contents(self, written: str, origin: str) -> str:
        try:
            with (self._folder / written).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            text = data.decode()
        except OSError as error:
            raise Unfit(
                f"{origin} cannot be read ({error.strerror})", "create it, or name another one"
            ) from error
        except UnicodeDecodeError as error:
            raise Unfit(f"{origin} is not UTF-8 text", "name the file with the value") from error
        except ValueError as error:  # a zero byte in its name
            raise Unfit("expected the path of a file", "name the file with the value") from error
        if len(data) > _MOST_BYTES:
            raise Unfit(f"{origin} is larger than 64 KiB", "name the file with the value")
        return text

    def _problem(self, place: Place, message: str, remedy: str) -> None:
        self.problems.append(Problem(place, message, remedy))
