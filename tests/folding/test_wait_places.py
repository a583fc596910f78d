"""Where queries waited: a lock by the frame that takes it, a sleep by the program's own innermost frame."""

from __future__ import annotations

from folding.locks import read_rules
from folding.wait_places import place_of, wait_places
from ground.results.profile import FoldedStack

LIBC, OWN, ENGINE = "/usr/lib/x86_64-linux-gnu/libc.so.6", "/tmp/libplanted.so", "/usr/lib/librocksdb.so.7.8"


def stack(number: int, state: str, *frames: tuple[str, str]) -> FoldedStack:
    return FoldedStack(tuple(name for name, _ in frames), tuple(of for _, of in frames), state, number, 10, 1)


def test_a_place_is_named_by_the_frame_that_waits() -> None:
    kernel = ("do_nanosleep_[k]", "[kernel]")
    stacks = [
        stack(1, "sleep", ("Get", ENGINE), ("planted_nap", OWN), ("usleep", LIBC), ("clock_nanosleep", LIBC), kernel),
        stack(2, "lock", ("Get", ENGINE), ("Lookup", ENGINE), ("pthread_mutex_lock", LIBC), ("futex_wait_[k]", "")),
        stack(3, "sleep", ("start_thread", LIBC), kernel),
        stack(4, "io", kernel),
        stack(5, "lock", ("Get", ENGINE), ("own_spinning_lock", ENGINE), kernel),
    ]
    places = wait_places(stacks, read_rules())
    wheres = {number: place.where for number, place in places.items()}
    assert wheres == {1: "planted_nap", 2: "Lookup", 3: "start_thread", 4: kernel[0], 5: "own_spinning_lock"}
    assert places[2].state == "lock" and places[2].frames[-1] == "futex_wait_[k]"
    assert place_of(places, 2, "lock") is places[2]
    missing = place_of(places, 99, "sleep")
    assert (missing.state, missing.frames, missing.where) == ("sleep", (), "[no stack]")
