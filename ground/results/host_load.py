"""What others did on a host in the second before anything of ours was measured, and whether that is much."""

from __future__ import annotations

from dataclasses import dataclass

from ground.results.checks import Check, Verdict
from ground.results.ranges import Amount, Count

# Of all CPUs, what others may use, and what the hypervisor may take; a tick of 10 ms in a second of one CPU is 0.01.
BUSY_SHARE = 0.10
_STEAL_SHARE = 0.02
# Requests of others at the device, on average: one in ten of ours finds one there.
_IN_FLIGHT = 0.1
# Of the highest clock: below it is power saving, heat or a limit, and not another core's boost.
_SLOW_CLOCK = 0.6


@dataclass
class HostLoad:
    """Others are everything but our own processes, and those that we were asked to watch.

    seconds:   that it was looked at
    cpus:      of the host; others_cpus, stolen_cpus: how many of them others, and the hypervisor, kept busy
    runnable:  threads that ran or waited for a CPU, on average, those of a watched target with them
    device:    of the database or the target; "" where none is known, and of it nothing is
    read_bytes, write_bytes: that others moved there, a second; in_flight: their requests that it had, on average
    ghz, most_ghz: the clock of the fastest CPU while one was busy, and its highest; 0 where the kernel does not say
    """

    seconds: Amount
    cpus: Count
    others_cpus: Amount
    stolen_cpus: Amount
    runnable: Amount
    device: str = ""
    read_bytes: Amount = 0.0
    write_bytes: Amount = 0.0
    in_flight: Amount = 0.0
    ghz: Amount = 0.0
    most_ghz: Amount = 0.0

    @property
    def causes(self) -> list[str]:
        """What makes it a busy one, in words; empty for a quiet host."""
        found = []
        if self.others_cpus > BUSY_SHARE * self.cpus:
            queue = f"{self.runnable:.1f} threads ran or waited for one"
            found.append(f"others used {self.others_cpus:.1f} of {self.cpus} CPUs, {queue}")
        if self.stolen_cpus > _STEAL_SHARE * self.cpus:
            found.append(f"the hypervisor took {self.stolen_cpus:.1f} of {self.cpus} CPUs")
        if self.in_flight > _IN_FLIGHT:
            moved = f"read {self.read_bytes / 1e6:.1f} and wrote {self.write_bytes / 1e6:.1f} MB/s on {self.device}"
            found.append(f"others {moved}")
        if self.most_ghz and self.ghz < _SLOW_CLOCK * self.most_ghz:
            found.append(f"the CPUs ran at {self.ghz:.1f} of {self.most_ghz:.1f} GHz")
        return found

    def check(self) -> Check:
        """As a row of the doctor and of a run's checks, and the one line before a measurement."""
        look = f" (a look of {self.seconds:.1f} s)"
        if not self.causes:
            device = f", had {self.in_flight:.2f} requests on {self.device}" if self.device else ""
            value = f"others used {self.others_cpus:.2f} of {self.cpus} CPUs{device}{look}"
            return Check("others before", Verdict.OK, value)
        return Check(
            "others before",
            Verdict.WARN,
            ", ".join(self.causes) + look,
            "QPS, latency, waits and CPU per query will be those of a shared host",
            "wait until it is quiet (top, iostat), or use another host",
        )
