"""Which tags an object must and must not have. Tags are how people protect single objects."""

from collections.abc import Mapping

from bestbefore.domain.policy import ObjectSource


def kept_by_tags(source: ObjectSource, tags: Mapping[str, str]) -> str | None:
    """Why an object that has *tags* is kept, or None: names and values compare exactly."""
    for name in source.lacks_tags:
        if name in tags:
            return f"it has the tag {name}"
    for name, value in source.tags:
        if name not in tags:
            return f"it lacks the tag {name}"
        if tags[name] != value:
            return f"its tag {name} is {tags[name]!r}, not {value!r}"
    return None
