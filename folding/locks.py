"""Who waits for locks, and where from: by the first frame that is no lock primitive, and by its caller's category."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.errors import UsageError
from ground.results.frame_marks import MARK
from ground.results.pmp import Locks, LockSite, Tally
from ground.results.profile import FoldedStack
from ground.results.states import SAMPLED_FRAMES
from ground.system.atomic_files import read_toml

_RULES = Path(__file__).with_name("locks.toml")
_CONDITION = "condition"
_KINDS = ("mutex", "rwlock", "condition", "semaphore", "spin", "futex")
# A frame of a C library without a name.
_NAMELESS = re.compile(r"\[(lib(c|pthread)[-.].*|ld-musl-.*)\]")
# What a thread in lock code does there, by its state.
_ROLES = {SAMPLED_FRAMES["S"]: "waiting", SAMPLED_FRAMES["D"]: "waiting", SAMPLED_FRAMES["R"]: "running"}


@dataclass(frozen=True)
class LockRules:
    """Compiled rules: pattern and kind; name: where they are from."""

    name: str
    primitives: tuple[tuple[re.Pattern[str], str], ...]

    def kind_of(self, frame: str) -> str | None:
        """The kind of lock primitive that `frame` is; None if it is none."""
        name = plain_name(frame)
        return next((kind for pattern, kind in self.primitives if pattern.fullmatch(name)), None)


def read_rules(*own: Path) -> LockRules:
    """The rules for all programs, and those of an engine's own files; UsageError where one is not a file of rules."""
    return LockRules(_RULES.stem, tuple(primitive for path in (_RULES, *own) for primitive in _primitives(path)))


def _primitives(path: Path) -> list[tuple[re.Pattern[str], str]]:
    try:
        data = read_toml(path)
        if data["schema"] != 1:
            raise UsageError(f"{path} has schema {data['schema']}; this ioflame reads schema 1")
        primitives = []
        for entry in data["primitive"]:
            if entry["kind"] not in _KINDS:
                raise UsageError(f"{path}: kind {entry['kind']!r} is not known", mend=f"one of {', '.join(_KINDS)}")
            # Scopes may come first, as in category rules.
            primitives += [(re.compile(rf"(?:.*::)?(?:{text})"), entry["kind"]) for text in entry["frames"]]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, re.error, KeyError, TypeError) as error:
        raise UsageError(f"{path} holds no lock rules: {error}") from None
    return primitives


def plain_name(frame: str) -> str:
    """A frame's name without marks, leading underscores, clone suffixes, symbol versions and template arguments."""
    name = MARK.sub("", frame)
    name = re.sub(r"@.*$", "", name)
    # glibc's internal aliases: __GI___lll_lock_wait is lll_lock_wait.
    name = re.sub(r"^_*(GI_+)?_*(?=\w)", "", name)
    name = re.sub(r"\.(part|constprop|isra|cold|lto_priv)(\.\d+)*.*$", "", name)
    return _without_templates(name)


def _without_templates(name: str) -> str:
    # `operator<` and its like keep their sign: only balanced brackets go.
    if name.count("<") != name.count(">") or "operator" in name:
        return name
    out, depth = [], 0
    for character in name:
        depth += character == "<"
        if depth == 0:
            out.append(character)
        depth -= character == ">"
    return "".join(out)


@dataclass
class _Site:
    samples: Counter[str] = field(default_factory=Counter)
    weights: Counter[str] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)

    def add(self, role: str, samples: int, weight: int, category: str) -> None:
        self.samples[role] += samples
        self.weights[role] += weight
        self.categories[category] += weight

    def tally(self, role: str) -> Tally:
        return Tally(self.samples[role], self.weights[role])

    def site(self, place: str, kind: str) -> LockSite:
        category = max(sorted(self.categories), key=self.categories.__getitem__, default="")
        return LockSite(place, kind, category, self.tally("waiting"), self.tally("running"))


@dataclass(frozen=True)
class _Seen:
    """A stack, and what its thread was about: role: `waiting`, `running` or ""; kind, place: of the lock, or ""."""

    stack: FoldedStack
    role: str
    kind: str = ""
    place: str = ""

    @property
    def waits_for_condition(self) -> bool:
        return self.role == "waiting" and self.kind == _CONDITION


def lock_report(stacks: Iterable[FoldedStack], rules: LockRules) -> Locks:
    """The report over stacks with their owner category.

    A sample is in a lock when its leaf-most user frame is a lock primitive: waiting when its thread was blocked,
    running when it ran there. Stacks that do not know their thread (tid) are those of a thread that works.
    """
    seen = [_seen(stack, rules) for stack in stacks]
    idle = _idle_threads(seen)
    left_out = [one.stack for one in seen if one.stack.tid in idle]
    sites: defaultdict[tuple[str, str], _Site] = defaultdict(_Site)
    owners: defaultdict[str, _Site] = defaultdict(_Site)
    totals = _Site()
    for one in seen:
        stack, role, kind = one.stack, one.role, one.kind
        if stack.tid in idle:
            continue
        category, samples, weight = stack.category, stack.samples or 0, stack.weight
        totals.add("total", samples, weight, category)
        if not kind:
            if role == "waiting":
                totals.add("elsewhere", samples, weight, category)
            continue
        sites[one.place, kind].add(role, samples, weight, category)
        if kind == _CONDITION:
            # A thread that signals a condition runs in it as one that takes a lock does; the total has only waiting.
            totals.add("condition" if role == "waiting" else "condition running", samples, weight, category)
            continue
        totals.add(role, samples, weight, category)
        owners[category].add(role, samples, weight, category)
    rows = [site.site(place, kind) for (place, kind), site in sites.items()]
    return Locks(
        rules=rules.name,
        total=totals.tally("total"),
        waiting=totals.tally("waiting"),
        running=totals.tally("running"),
        conditions=totals.tally("condition"),
        blocked_elsewhere=totals.tally("elsewhere"),
        sites=_ordered(row for row in rows if row.kind != _CONDITION),
        owners=_ordered(site.site(category, "") for category, site in owners.items()),
        condition_sites=_ordered(row for row in rows if row.kind == _CONDITION),
        idle_threads=len(idle),
        idle=Tally(sum(stack.samples or 0 for stack in left_out), sum(stack.weight for stack in left_out)),
    )


def _seen(stack: FoldedStack, rules: LockRules) -> _Seen:
    role = _ROLES.get(stack.state, "")
    found = lock_of(stack.frames, rules) if role else None
    return _Seen(stack, role, *(found or ()))


def _idle_threads(seen: Iterable[_Seen]) -> set[int]:
    """Those that wait for conditions at least 99 % of their time; none where that is all of them."""
    whole: Counter[int] = Counter()
    waited: Counter[int] = Counter()
    for one in seen:
        if one.stack.tid is not None:
            whole[one.stack.tid] += one.stack.weight
            waited[one.stack.tid] += one.stack.weight * one.waits_for_condition
    idle = {tid for tid, weight in whole.items() if weight and waited[tid] * 100 >= weight * 99}
    return idle if idle != whole.keys() else set()


def _ordered(rows: Iterable[LockSite]) -> list[LockSite]:
    return sorted(rows, key=lambda row: (-row.waiting.weight_ns, -row.running.weight_ns, row.place))


def lock_of(frames: Sequence[str], rules: LockRules) -> tuple[str, str] | None:
    """Kind and place: of the lock primitive that the stack ends in; None where it ends in none.

    frames: root first
    """
    kind = None
    for frame in reversed(frames):
        # What a lock's function calls within a C library that came without names has none.
        if frame.endswith("_[k]") or (kind is None and _NAMELESS.fullmatch(frame)):
            continue
        found = rules.kind_of(frame)
        if found is None:
            return (kind, frame) if kind else None
        kind = _outer(kind, found)
    return (kind, "[no caller on the stack]") if kind else None


def _outer(inner: str | None, outer: str) -> str:
    """The kind of a primitive by its next frame outwards."""
    if inner is None or inner == "futex" or (inner == _CONDITION and outer != "futex"):
        return outer
    return inner if outer in ("futex", _CONDITION) else outer
