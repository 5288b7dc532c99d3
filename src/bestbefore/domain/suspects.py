"""How to find out which of many commands kills its worker.

When a process dies, everything it had in hand is suspect, and nearly all of it is innocent. A few
suspects run one by one. Many run in halves, each half alone in its process, until the one that
kills is among a few.
"""

FEW = 32
MOST = 1_000


def suspects_together(suspects: int, company: int) -> int:
    """How many of *suspects* to deliver at once, and nothing beside them.

    *company* is how many there were in the smallest delivery that one of them was lost with.
    """
    if suspects <= FEW:
        return 1
    return max(1, min(MOST, suspects, company // 2))
