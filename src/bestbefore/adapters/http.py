"""One question to a web address: is it all right to go on?"""

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from bestbefore.domain.throttle import Strain

_TIMEOUT_SECONDS = 2.0


def strain(url: str, timeout: float = _TIMEOUT_SECONDS) -> Strain | None:
    """None where *url* answers 200 to a GET; else what it answers instead, or that it does not.

    A redirect is another answer than 200. Never raises. What is after the path of *url*, or before
    its host, can be a secret and is not repeated.
    """
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        try:
            connection.request("GET", target, headers={"Connection": "close"})
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        return Strain("http", f"{place} gives no answer, so nobody can tell that it is safe: {why}")
    return None if status == 200 else Strain("http", f"{place} answers {status}")
