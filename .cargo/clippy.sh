#!/bin/sh
# Stands for rustc where our crates are built for tests: clippy builds them, and a warning is an error.
exec clippy-driver "$@" -D warnings
