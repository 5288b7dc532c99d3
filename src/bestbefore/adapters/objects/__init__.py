"""Object stores, one folder each."""
