"""JSON Lines: one line about the file, then one object per row."""

import json

from bestbefore.domain.row_file import Row, RowFile, cell_of, columns_of, row_file, written


class JsonLines:
    """`bestbefore.ports.files.RowFormat` as UTF-8 text with a line feed after each line.

    Bytes are ``{"base64": …}``, a float that JSON has no number for is ``{"float": …}``. Integers
    are written in full, also those beyond 2^53.
    """

    def encode(self, file: RowFile) -> bytes:
        names = [column.name for column in file.columns]
        lines = [json.dumps({"bestbefore": file.header()}, ensure_ascii=False)]
        lines += (written(dict(zip(names, row, strict=True))) for row in file.rows)
        return "".join(f"{line}\n" for line in lines).encode()

    def decode(self, body: bytes) -> RowFile:
        first, *lines = body.split(b"\n")
        if lines[-1:] != [b""]:
            raise ValueError("its last line is cut off")
        match json.loads(first):
            case {"bestbefore": {**header}}:
                names = [column.name for column in columns_of(header)]
                return row_file(header, [_row(line, names) for line in lines[:-1]])
            case _:
                raise ValueError("its first line is not about a file of rows")


def _row(line: bytes, names: list[str]) -> Row:
    match json.loads(line):
        case {**found} if list(found) == names:
            return tuple(map(cell_of, found.values()))
        case _:
            raise ValueError("a row has other columns than the first line says")
