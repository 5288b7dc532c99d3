"""One behaviour suite per port, to run over every adapter, ours or anybody's.

Each is a class of pytest to inherit from; see ``docs/adapters.md``.
"""

from pkgutil import iter_modules

import pytest

# In a test module of its own a failed assertion would tell what it compared: so it does in these.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
