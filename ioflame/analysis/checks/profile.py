"""What a CPU profile can be trusted for: its weight, samples, stacks, and the clock it was taken at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ground.results.checks import Check, Verdict
from ground.results.record import ProfileFacts
from ground.settings import Setting

# Field-tested bounds; each is printed with the value it judged.
_FEW_SAMPLES = 2000
_INCOMPLETE = 0.10
_UNRESOLVED = 0.10
_LARGEST_SAMPLE = 0.05
_COVERAGE = 0.90
# Two accounts of one time differ by a sample at each edge, not by more.
_OVERFULL = 1.02
_BACKGROUND = 0.001
# Of the nominal clock; boost reaches about half more.
_SLOW_CLOCK, _FAST_CLOCK = 0.8, 1.6


def profile_checks(
    profile: ProfileFacts, nominal_ghz: str, background: Mapping[str, int], unread: str = ""
) -> Iterator[Check]:
    """nominal_ghz: of the host's CPU, "" where it is not stated

    background: weight of the engine's threads that serve no query, by what they do
    unread: why perf report could not read the recording, in perf's words
    """
    yield from _sampling_checks(profile, background, unread)
    if profile.ghz is not None:
        yield _clock_check(profile.ghz, nominal_ghz)


def _sampling_checks(profile: ProfileFacts, background: Mapping[str, int], unread: str) -> Iterator[Check]:
    weight, unit = profile.weight, profile.unit
    if profile.report_weight is None:
        # Nothing contradicts the fold; only nobody confirms it.
        yield Check(
            "folded = perf report",
            Verdict.WARN,
            f"{weight:,} {unit} folded, total not confirmed by perf report",
            unread or "perf report did not read the recording",
            "run it again while no other perf records, or use a newer perf",
        )
    elif profile.report_weight == weight:
        yield Check("folded = perf report", Verdict.OK, f"{weight:,} {unit} in both")
    else:
        yield Check(
            "folded = perf report",
            Verdict.FAILED,
            f"{weight:,} {unit} folded, {profile.report_weight:,} by perf report",
            "weight was lost or counted twice: do not use this profile",
        )
    if not weight:
        yield Check("samples", Verdict.FAILED, "none", "the process was not sampled in the perf window")
        return
    if profile.mode != "all":
        yield Check(
            "mode",
            Verdict.WARN,
            f"{profile.event} counts {profile.mode} mode only",
            f"shares and us are of {profile.mode} CPU alone",
            "sudo sysctl kernel.perf_event_paranoid=1   (or run as root)" if profile.mode == "user" else "",
        )
    few = profile.samples < _FEW_SAMPLES
    yield Check(
        "samples",
        Verdict.WARN if few else Verdict.OK,
        f"{profile.samples:,}",
        f"below {_FEW_SAMPLES:,} a share of 5 % is uncertain by more than 1 point" if few else "",
        f"a larger {Setting.DURATION} or {Setting.FREQ}" if few else "",
    )
    yield _bounded("lost samples", profile.lost_samples / (profile.samples + profile.lost_samples), 0.0,
                   f"{profile.lost_samples:,}", "the shares miss what was lost",
                   f"a smaller {Setting.FREQ}")  # fmt: skip
    yield _incomplete_check(profile)
    yield _bounded("unresolved leaves", profile.unresolved_weight / weight, _UNRESOLVED, None,
                   "their frames have no function name", "a build with symbols; of libc: make doctor")  # fmt: skip
    yield _bounded("largest sample", profile.largest_sample_weight / weight, _LARGEST_SAMPLE, None,
                   "one sample decides the picture", "a fixed period instead of a frequency")  # fmt: skip
    if background:
        yield _bounded("background threads", sum(background.values()) / weight, _BACKGROUND, None,
                       f"{' or '.join(background)} ran while reads were measured")  # fmt: skip
    if profile.coverage is not None:
        yield _coverage_check(profile.coverage)


def _coverage_check(coverage: float) -> Check:
    value = f"{coverage:.0%} of the scheduler's CPU time was sampled"
    if coverage > _OVERFULL:
        return Check(
            "coverage",
            Verdict.WARN,
            value,
            "samples include stolen time (steal); a timer event counts on while the hypervisor has the CPU",
            f"run it again on a quieter host, or one with a cycles counter ({Setting.EVENT.to('cycles')})",
        )
    if coverage >= _COVERAGE:
        return Check("coverage", Verdict.OK, value)
    means = "a timer event cannot fire with interrupts off; kernel parts are under-counted"
    return Check("coverage", Verdict.NOTE, value, means)


def _incomplete_check(profile: ProfileFacts) -> Check:
    means, mend = "their weight may fall into the wrong category", Setting.CALLGRAPH.to("dwarf")
    if profile.callgraph == "fp":
        if any(tried != "fp" for tried in profile.trials):
            mend = "a build with -fno-omit-frame-pointer"
    else:
        size, page = (cut / profile.weight for cut in (profile.cut_by_size_weight, profile.cut_by_page_weight))
        means += f"; {size:.1%} are longer than their copy, {page:.1%} were copied up to a page not in memory"
        mend = f"{Setting.CALLGRAPH.to('fp')} and a build with -fno-omit-frame-pointer"
    if profile.chains_end:
        means += f"; they end in {profile.chains_end}"
    share = profile.incomplete_weight / profile.weight
    return _bounded("incomplete stacks", share, _INCOMPLETE, None, means, mend)


def _clock_check(ghz: float, nominal: str) -> Check:
    """Cycles by CPU time, against what the CPU is sold as: far below it is power saving, a hypervisor or heat."""
    value = f"{ghz:.2f} GHz of {nominal} nominal" if nominal else f"{ghz:.2f} GHz; nominal not stated"
    if not nominal or _SLOW_CLOCK <= ghz / float(nominal) <= _FAST_CLOCK:
        return Check("effective clock", Verdict.OK, value)
    return Check(
        "effective clock",
        Verdict.WARN,
        value,
        "CPU per query depends on the clock: another run may have another one",
        "sudo cpupower frequency-set -g performance",
    )


def _bounded(name: str, share: float, bound: float, value: str | None, means: str, mend: str = "") -> Check:
    shown = value or f"{share:.2%} of weight"
    return Check(name, Verdict.OK, shown) if share <= bound else Check(name, Verdict.WARN, shown, means, mend)
