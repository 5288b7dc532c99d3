"""Keys as paths below a bucket: which ones there can be, and in which order they come.

Bytes of a name that are not UTF-8 are lone surrogates in ours, as Python has it: such a file can
be listed, compared and passed by, and `impossible` refuses it and only it.
"""

from collections.abc import Iterable, Mapping, Sequence
from unicodedata import normalize

from bestbefore.domain.selection import impossible

_NEVER = {"", ".", ".."}


def octets(key: str) -> bytes:
    """*key* as the disk holds it. Keys come in the order of their octets."""
    return key.encode(errors="surrogateescape")


def readable(text: str) -> str:
    """*text*, which may hold a key or a path, as it can be shown and stored."""
    return text.encode(errors="backslashreplace").decode()


def unfit(key: str) -> str | None:
    """Why *key* names no file below a bucket, or None. No system call is made to find out."""
    if (reason := impossible(key)) is not None:
        return reason
    if folders(key + "/") is None:
        return 'a key has no zero byte and, between its "/", no part that is empty, "." or ".."'
    return None


def folders(prefix: str) -> Sequence[str] | None:
    """The folders on the way to what begins with *prefix*; None where nothing can."""
    way, slash, _ = prefix.rpartition("/")
    parts = way.split("/") if slash else []
    return None if "\0" in prefix or not _NEVER.isdisjoint(parts) else parts


def by_folder(keys: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The names of *keys* by the folder they are in (``""``, or it ends in "/")."""
    found: dict[str, list[str]] = {}
    for key in keys:
        way, slash, name = key.rpartition("/")
        found.setdefault(way + slash, []).append(name)
    return found


def other_spellings(name: str) -> set[str]:
    """Names that a file system which ignores case or normal forms takes for *name*."""
    spellings = {name.swapcase()}
    if not name.isascii():
        spellings |= {normalize("NFC", name), normalize("NFD", name)}
    return spellings - {name}
