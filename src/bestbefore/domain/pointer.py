"""The object that names the generation in use, and what its text protects.

The text may be a bare name, a path, a JSON document or anything else: a generation is named when
its name occurs anywhere in it. Too much is kept rather than too little.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

MOST_BYTES = 64 * 1024
"""How long a pointer may be: it names something, it is not the data."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What ``current_pointer`` said. ``problem`` is why it says nothing, so that all is kept."""

    key: str
    spellings: tuple[str, ...] = ()
    problem: str | None = None

    @classmethod
    def of(cls, key: str, content: bytes | None) -> "Pointer":
        """The pointer under *key* with *content*, of which `MOST_BYTES` + 1 bytes are enough."""
        if content is None:
            return cls(key, problem=f"there is no object {key}")
        if len(content) > MOST_BYTES:
            return cls(key, problem=f"{key} is longer than {MOST_BYTES // 1024} KiB")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return cls(key, problem=f"{key} is not UTF-8 text")
        if not text.strip():
            return cls(key, problem=f"{key} is empty")
        return cls(key, tuple(dict.fromkeys([text, unquote(text), *_strings_in(text)])))

    def names(self, generations: Collection[str]) -> frozenset[str]:
        """Those of *generations* that are named; none where everything has to be kept.

        A name inside another word keeps its generation too, but does not make the pointer one
        that is understood: ``v10``, which nobody has seen yet, must not pass for ``v1``.
        """
        named = frozenset(name for name in generations if any(name in s for s in self.spellings))
        return named if any(map(self._says, named)) else frozenset()

    def why_all(self, generations: Collection[str]) -> str | None:
        """Why everything has to be kept, given the *generations* there are; None if it is not."""
        if self.problem is not None:
            return self.problem
        return None if self.names(generations) else f"{self.key} names no generation that was seen"

    def _says(self, name: str) -> bool:
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        return bool(name) and any(word.search(spelling) for spelling in self.spellings)


def _strings_in(text: str) -> Iterator[str]:
    """Every string of a JSON document with its escapes resolved; nothing of any other text."""
    try:
        left = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while left:
        match left.pop():
            case str() as found:
                yield found
            case list() as found:
                left += found
            case dict() as found:
                left += [*found, *found.values()]
