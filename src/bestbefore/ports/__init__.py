"""Small protocols whose docstrings are the contract."""
