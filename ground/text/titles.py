"""What people read for names that records keep: by those, runs of all versions are compared."""

_TITLES = {
    # kinds of a window
    "plain": "baseline",
    "null": "empty",
    # states of a thread, a stage of a read, a part of a slow query: one wait
    "woken": "run-queue wait",
    "preempted": "run-queue wait, preempted",
    "run queue": "run-queue wait",
    "runq": "run-queue wait",
    # why a block of a comparison is measured again
    "foreign reads": "others' reads",
    # of a comparison: the second process of the base; how arms take turns
    "twin": "A/A control",
    "frozen": "all but one arm SIGSTOPped",
}


def title_of(name: str) -> str:
    return _TITLES.get(name, name)
