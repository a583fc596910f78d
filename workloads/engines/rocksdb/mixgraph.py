"""db_bench's mixgraph: what its closing line says, and the hit rate that an LRU of blocks would have with its keys.

The laws of its keys are those of MixGraph in tools/db_bench_tool.cc (7.8.3; the same from 6.29 to 11): uniform while
--key_dist_a is 0, whatever the key ranges say; hot key ranges, of which a key is drawn by a power law; else a power law
alone, whose remainder is signed, so that half of its keys lie behind the last one.
"""

from __future__ import annotations

import math
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

# `... ( Gets:4 Puts:0 Seek:0, reads 4 in 4 found, avg size: -nan value, -nan scan)`; "reads a in b": a of b were found.
_CLOSING = re.compile(
    r"^mixgraph .*\( ?Gets:(\d+) Puts:(\d+) Seek:(\d+), reads (\d+) in (\d+) found, "
    r"avg size: (\S+) value, (\S+) scan\)",
    re.MULTILINE,
)
_NAMES = ("gets", "puts", "seeks", "found", "reads", "value_bytes", "scan_length")
# Of an LRU that is full before any access is counted, and that still varies by less than a fifth of a point.
_ACCESSES = 400_000
_LEAST_SHARE = 1e-16
_WORD = (1 << 64) - 1


def closing_figures(log: str) -> dict[str, float]:
    """Operations by kind, keys found of those read, mean sizes; what is of nothing is left out. Empty without it."""
    line = _CLOSING.search(log)
    if line is None:
        return {}
    found = {name: float(text) for name, text in zip(_NAMES, line.groups(), strict=True)}
    none = () if found["reads"] else ("found", "reads")
    return {name: value for name, value in found.items() if not math.isnan(value) and name not in none}


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """--name=value of a command line, by name."""
    return dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)


def hit_rate(flags: Mapping[str, str], data_bytes: int) -> float | None:
    """The share of block lookups that an LRU cache answers, in percent, of Gets by these flags over so many bytes of
    table files. None of a workload that does more than that."""
    if float(flags["mix_get_ratio"]) != 1.0:
        return None
    blocks = data_bytes // int(flags["block_size"])
    capacity = int(flags["cache_size"]) // int(flags["block_size"])
    if capacity >= blocks:
        return 100.0
    keys = int(flags["num"])
    accesses = (key * blocks // keys for key in keys_read(flags, random.Random(17)) if 0 <= key < keys)
    return 100 * lru_hit_rate(accesses, capacity, _ACCESSES)


def lru_hit_rate(accesses: Iterator[int], capacity: int, counted: int) -> float:
    """The share of `counted` accesses that an LRU of so many entries answers, once it has been filled twice over."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = missed = 0
    # A skewed law may need long to fill it: no longer than it is counted for.
    for number, block in enumerate(accesses):
        if missed >= 2 * capacity or number >= 4 * counted:
            break
        missed += _take(cache, block, capacity)
    for _ in range(counted):
        hits += not _take(cache, next(accesses), capacity)
    return hits / counted


def _take(cache: OrderedDict[int, None], block: int, capacity: int) -> bool:
    """True where it was not there."""
    if block in cache:
        cache.move_to_end(block)
        return False
    cache[block] = None
    if len(cache) > capacity:
        cache.popitem(last=False)
    return True


def keys_read(flags: Mapping[str, str], chance: random.Random) -> Iterator[int]:
    """The numbers of the keys that mixgraph asks for, without end; negative ones are behind the last key.

    Which key a rank becomes is db_bench's by a generator of its own, ours by another: as scattered, and as fixed.
    """
    keys = int(flags["num"])
    a, b = float(flags.get("key_dist_a", "0")), float(flags.get("key_dist_b", "0"))
    if a == 0 or b == 0:
        while True:
            yield chance.randrange(keys)
    weights = [float(flags.get(f"keyrange_dist_{name}", "0")) for name in "abcd"]
    if not any(weights):
        while True:
            signed = _scattered(_rank(chance.randrange(keys) / keys, a, b)) - (1 << 63)
            # A remainder in C++ has the sign of its dividend.
            yield abs(signed) % keys * (1 if signed >= 0 else -1)
    ranges = int(flags.get("keyrange_num", "1"))
    size = keys // ranges
    draw = _range_of(weights, ranges)
    while True:
        number = chance.getrandbits(62)
        yield size * draw(number) + _scattered(_rank((number % size) / size, a, b)) % size


def _rank(share: float, a: float, b: float) -> int:
    return math.ceil(math.pow(share / a, 1 / b))


def _scattered(rank: int) -> int:
    """A number of 64 bits that is fixed for a rank (splitmix64)."""
    mixed = (rank + 0x9E3779B97F4A7C15) & _WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
    return mixed ^ (mixed >> 31)


def _range_of(weights: Sequence[float], ranges: int) -> Callable[[int], int]:
    """Range i of n is drawn with a share of a e^(b i) + c e^(d i), cut to whole parts of the least one."""
    a, b, c, d = weights
    shares = [a * math.exp(b * i) + c * math.exp(d * i) for i in range(ranges, 0, -1)]
    shares = [share if share >= _LEAST_SHARE else 0.0 for share in shares]
    amplify = next((math.floor(1 / share) + 1 for share in shares if share > 0), 1)
    ends: list[int] = []
    for share in shares:
        ends.append((ends[-1] if ends else 0) + math.floor(amplify * share))
    order = list(range(ranges))
    random.Random(ends[-1]).shuffle(order)

    def draw(number: int) -> int:
        place = number % ends[-1]
        return order[next(i for i, end in enumerate(ends) if place < end)]

    return draw
