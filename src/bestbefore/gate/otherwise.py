"""Parts of a system that do one thing otherwise."""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Otherwise(Generic[T]):
    """Does what *inner* does, but for the methods that a class below has of its own."""

    def __init__(self, inner: T) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
