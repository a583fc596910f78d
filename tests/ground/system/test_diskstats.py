"""Lines of /proc/diskstats, of kernels old and new."""

from __future__ import annotations

from ground.system.diskstats import DiskCount, disk_stats, parse_disk_stats


def test_a_line_has_as_many_counters_as_its_kernel_knows() -> None:
    text = "   8  1 sda1 5 6 7 8 9 10 11 12 0 14 15\n 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"
    old, new = (parse_disk_stats(text)[number] for number in ((8, 1), (254, 0)))
    assert (old.name, new.name) == ("sda1", "vda")
    assert old.counts.read == DiskCount(5, 6, 7, 8) and old.counts.write == DiskCount(9, 10, 11, 12)
    assert old.counts.discard == old.counts.flush == DiskCount()
    assert new.counts.discard == DiskCount(12, 13, 14, 15) and new.counts.flush == DiskCount(requests=16, ms=17)


def test_this_kernels_own_lines_are_read() -> None:
    assert any(stats.counts.read.requests for stats in disk_stats().values())
