"""The questions people ask, answered once for every surface, as JSON documents."""
