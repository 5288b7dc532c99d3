"""Where archived objects go."""

from dataclasses import dataclass

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Archive:
    """A place for copies: one bucket of a store, under one prefix."""

    store: str
    bucket: str
    prefix: str

    def key(self, operation_id: bytes, key: str) -> str:
        """The key that the copy of the object *key* gets.

        Repeats of one operation overwrite themselves; two generations of one key never meet.
        """
        return f"{self.prefix}{operation_id.hex()[:_DIGITS]}/{key}"

    @property
    def added_bytes(self) -> int:
        """By how many bytes the key of a copy is longer."""
        return len(self.prefix.encode()) + _DIGITS + len("/")
