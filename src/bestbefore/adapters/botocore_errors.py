"""Errors of botocore's own, before any service has said a word: the same for every adapter to AWS.

Their texts are not repeated: they hold the URL, and so whatever user and password an endpoint was
configured with.
"""

from botocore.exceptions import (
    ConnectionError,  # noqa: A004  (botocore's name for it)
    ConnectTimeoutError,
    CredentialRetrievalError,
    HTTPClientError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSOError,
    TokenRetrievalError,
)

CREDENTIAL_ERRORS = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""There was nothing to sign a request with."""

NO_ANSWER_ERRORS = (HTTPClientError, ConnectionError)
"""A request that nobody answered: a timeout, a lost or refused connection. See `no_answer`."""


def no_answer(error: HTTPClientError | ConnectionError) -> str:
    """What became of a request that nobody answered."""
    if isinstance(error, ConnectTimeoutError):
        return "no connection in time"
    if isinstance(error, ReadTimeoutError):
        return "no answer in time"
    return f"the connection failed ({type(error).__name__})"
