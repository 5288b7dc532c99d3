"""Keys as hashes, for where they must not be read: keys can be personal data.

A hash tells two keys apart and can be compared with that of a key one knows. It does not keep a
key from being guessed by somebody who can try all there are.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from bestbefore.domain.printable import printable

_DIGITS = 12


def veiled(key: str) -> str:
    """``sha256:`` and the first 12 hex digits of the hash of *key* in UTF-8."""
    return f"sha256:{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def veil_within(text: str, keys: Iterable[str]) -> str:
    """*text* with every mention of one of *keys* veiled, also where it was escaped."""
    # The longest first, as one key may be the beginning of another.
    for key in sorted({*keys} - {""}, key=len, reverse=True):
        for spelling in {key, repr(key)[1:-1], printable(key)}:
            if spelling in text:
                # Whole words only: the key 5 is not meant by 503.
                left = r"(?<!\w)" if re.match(r"\w", spelling) else ""
                right = r"(?!\w)" if re.search(r"\w\Z", spelling) else ""
                text = re.sub(f"{left}{re.escape(spelling)}{right}", veiled(key), text)
    return text
