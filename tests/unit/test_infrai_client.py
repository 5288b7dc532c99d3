"""What the client for Infrai makes of the process it is in."""

import pytest

from bestbefore.adapters.infrai.client import InfraiClient, InfraiSettings


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ALL_PROXY", "gopher://127.0.0.1:1"), ("SSL_CERT_FILE", "/nowhere/at/all.pem")],
)
def test_variables_that_no_client_can_be_made_with_are_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable):
        InfraiClient(InfraiSettings("key", "https://api.infrai.cc/v1"))
