"""An object store over a plain HTTP API: what ``kind = "http"`` stands for."""

from collections.abc import Mapping
from typing import Any

from bestbefore.ports.stores import Store
from bestbefore_http_store.api import Api
from bestbefore_http_store.deleting import HttpDeleter
from bestbefore_http_store.listing import HttpLister
from bestbefore_http_store.options import Options


def connect(options: Mapping[str, Any]) -> Store:
    """The store that ``[stores.NAME.options]`` describes; raises ValueError where they cannot be
    used. Asks nobody yet."""
    api = Api(Options.of(options))
    lister = HttpLister(api)
    return Store(lister, HttpDeleter(api, lister), close=api.close)
