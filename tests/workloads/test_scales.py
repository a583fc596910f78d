from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import HostError
from workloads.scales import DATA_TO_CACHE, Sizing, fit, scales


def sizing_of(name: str, keys: int | None = None, cache: int | None = None, free: int = 1 << 50, **more: Any) -> Sizing:
    return fit(scales()[name], keys, cache, where=Path("/data/db"), free=free, loaded=False, **more)


@pytest.mark.parametrize("name", ["smoke", "default", "full"])
def test_every_scale_is_io_bound_as_it_stands(name: str) -> None:
    scale, sizing = scales()[name], sizing_of(name)
    assert sizing.notes == () and sizing.shape.data_bytes >= DATA_TO_CACHE * sizing.cache_size
    assert (sizing.shape.num_keys, sizing.cache_size) == (scale.num_keys, scale.cache_size)


def test_full_is_the_source_documents_own_and_the_default_a_few_gigabytes() -> None:
    """1e9 keys of 420 bytes, a cache of 10 GiB, steps of 600 s: warm-up and three windows."""
    full = scales()["full"]
    assert (sizing_of("full").shape.data_bytes, full.cache_size) == (420 * 10**9, 10 << 30)
    assert 580 <= full.warmup + 3 * full.duration <= 600
    assert 2 << 30 < sizing_of("default").shape.data_bytes < 8 << 30


def test_a_small_disk_gets_a_smaller_database_and_is_told() -> None:
    sizing = sizing_of("default", free=3 << 30)
    assert sizing.shape.num_keys < 10_000_000
    assert sizing.shape.disk_bytes <= (3 << 30) - (1 << 30)
    assert sizing.shape.data_bytes >= DATA_TO_CACHE * sizing.cache_size
    assert "keys instead of 10,000,000" in sizing.notes[0] and "block cache" in sizing.notes[1]
    # One that is there needs no room.
    there = fit(scales()["default"], None, None, where=Path("/data/db"), free=0, loaded=True)
    assert there.shape.num_keys == 10_000_000


def test_keys_that_were_asked_for_are_refused_not_changed() -> None:
    with pytest.raises(HostError, match="would fill the disk") as caught:
        sizing_of("smoke", 10**9, None, free=10 << 30)
    assert "NUM_KEYS=" in caught.value.mend


def test_a_cache_that_was_asked_for_is_kept() -> None:
    sizing = sizing_of("smoke", None, 1 << 30)
    assert sizing.cache_size == 1 << 30
    assert "block cache of 1.0 GiB is more than a 20th of the data (400.5 MiB)" in sizing.notes[0]
    assert sizing_of("smoke", None, 20 << 20).notes == ()


@pytest.mark.parametrize("times", [0.0, 1.5])
def test_fewer_keys_are_said_also_where_the_cache_holds_all_data_or_there_is_none(times: float) -> None:
    sizing = sizing_of("default", free=3 << 30, cache_to_data=times)
    assert sizing.cache_size == int(sizing.shape.data_bytes * times)
    assert len(sizing.notes) == 1 and "keys instead of 10,000,000" in sizing.notes[0]


def test_a_disk_too_small_for_anything_is_refused() -> None:
    with pytest.raises(HostError, match="larger disk"):
        sizing_of("smoke", free=1 << 30)


@given(st.integers(min_value=0, max_value=1 << 46))
def test_what_is_chosen_always_fits(free: int) -> None:
    try:
        sizing = sizing_of("full", free=free)
    except HostError:
        return
    assert sizing.shape.disk_bytes + (1 << 30) <= free
