"""What is promised, in a few words each; the scenarios try it."""

from collections.abc import Mapping

PROMISES: Mapping[str, str] = {
    "P1": "One object, one command: a failure neither repeats nor delays the others",
    "P2": "Only what was seen is deleted",
    "P3": "Duplicates converge on one final state",
    "P4": "Nothing is lost, whatever is killed, and whenever",
    "P5": "A trigger twice is one run",
    "P6": "A missed trigger is noticed",
    "P7": "Never the current generation, a held prefix, or a superseded policy's choice",
    "P8": "Reach is bounded before anything is deleted",
    "P9": "Poison stays alone, and a sick environment does not drain into the dead letters",
    "P10": "Dead letters wait for a person",
    "P11": "Counts reconcile, at any moment",
    "P12": "The foreground is safe",
}
"""By number, in order."""
