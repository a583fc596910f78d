"""What our observers say of a thread beside its frames: `states.toml`, of which Rust and C are made too."""

from __future__ import annotations

from pathlib import Path

from ground.text.toml import tomllib

_LIST = tomllib.loads(Path(__file__).with_name("states.toml").read_text(encoding="utf-8"))

# What a thread waits for while it is off its CPU, in the order of tables, and what each means.
STATES: dict[str, str] = {state["name"]: state["means"] for state in _LIST["off_cpu"]}
# What a sampled thread was about, by the letter of /proc: what each means, and the leaf frame that says so.
SAMPLED: dict[str, str] = {state["letter"]: state["means"] for state in _LIST["sampled"]}
SAMPLED_FRAMES: dict[str, str] = {state["letter"]: state["frame"] for state in _LIST["sampled"]}
# Frames of off-CPU stacks that are no code, by name; the waker's name follows the frame of a waker.
MARKS: dict[str, str] = {mark["name"]: mark["frame"] for mark in _LIST["mark"]}
