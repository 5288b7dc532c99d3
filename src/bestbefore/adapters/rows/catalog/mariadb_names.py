"""Names as MariaDB and MySQL write them in statements."""

NAME = r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[^\s`".(]+'
"""What matches a name, in quotes of either kind or without."""


def quoted(name: str) -> str:
    """*name* in quotes, as every sql_mode takes it."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """The name that is written so."""
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name
