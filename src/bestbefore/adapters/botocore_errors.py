"""Errors of botocore's own, before any service has said a word: the same for every adapter to AWS.

Their texts are not repeated: they hold the URL, and so whatever user and password an endpoint was
configured with.
"""

from botocore.exceptions import (
    BotoCoreError,
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

from bestbefore.domain.failure import Failure, FailureClass

CREDENTIAL_ERRORS = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""There was nothing to sign a request with."""

NO_CLIENT_ERRORS = (BotoCoreError, ValueError, OSError)
"""What making a client may raise, as it reads the environment and files. See `no_client`."""

NO_ANSWER_ERRORS = (HTTPClientError, ConnectionError)
"""A request that nobody answered: a timeout, a lost or refused connection. See `no_answer`."""


def no_client(error: BotoCoreError | ValueError | OSError, target: str) -> Failure:
    """Why there is no client for *target*. Whatever it is, no command is at fault: all of them wait
    until the environment is right, as with keys that have expired."""
    return Failure(
        FailureClass.CREDENTIALS,
        f"{target}: {type(error).__name__}; look at what gives the keys, at the AWS_ variables of "
        "this process, and at ~/.aws/config",
    )


def no_answer(error: HTTPClientError | ConnectionError) -> str:
    """What became of a request that nobody answered."""
    if isinstance(error, ConnectTimeoutError):
        return "no connection in time"
    if isinstance(error, ReadTimeoutError):
        return "no answer in time"
    return f"the connection failed ({type(error).__name__})"
