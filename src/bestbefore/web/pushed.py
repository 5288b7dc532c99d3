"""The command in what a queue pushes: by itself, or in the envelope that some put around it."""

import json


def command_in(body: bytes) -> bytes:
    """The message in *body*: what stands under ``payload``, an object or its text, in an object
    that is no message itself; else all of it, whatever that is."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(said, dict) or "v" in said or "payload" not in said:
        return body
    payload = said["payload"]
    if isinstance(payload, str):
        return payload.encode("utf-8", "surrogatepass")
    return json.dumps(payload, separators=(",", ":")).encode()
