"""Other people's text, made safe to print."""


def printable(text: str) -> str:
    """*text* on one line, with everything a terminal could take for a command escaped.

    Keys and error texts are other people's: a line break in one must not look like a new line.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )
