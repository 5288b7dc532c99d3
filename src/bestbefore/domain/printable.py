"""Text that is safe to print, and numbers of things."""


def printable(text: str) -> str:
    """*text* on one line, with everything a terminal could take for a command escaped.

    Keys and error texts are other people's: a line break in one must not look like a new line.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def number_of(n: int, thing: str) -> str:
    """``1 row``, ``20,000 rows``"""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"
