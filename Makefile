# ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?
# `make` exits with 2 whenever a command failed; the command's own exit code is in make's message (Error 1, 2, 3).

VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo
SHELL_SCRIPTS := ioflame/setup.sh ioflame/dist.sh .ci/run folding/fuzz/seeds.sh tests/setup_by_hand.sh

# Quoting below takes bash: a line feed in a value is $'\n'.
SHELL := bash

# The variables of a profile; empty ones are left to `ioflame profile --help`.
WORKLOAD ?=
ENGINE ?=
CLIENT ?=
SCALE ?=
CONFIG ?=
DB_BENCH ?=
DB_DIR ?=
THREADS ?=
CPUS ?=
NUM_KEYS ?=
CACHE_SIZE ?=
CACHE_TYPE ?=
MEMORY_LIMIT ?=
DURATION ?=
EVENT ?=
FREQ ?=
CALLGRAPH ?=
COLLECT ?=
LADDER_SAMPLE ?=
OUT ?=
STORE ?=
# Those of an experiment.
USERS ?= 1 2
REPEATS ?=
RESUME ?=
EXPERIMENT ?=
# Those of a comparison: two clients (A the base), or the values of a setting (FACTOR=cache_type=lru_cache,...).
A ?=
B ?=
FACTOR ?=
DELTA ?=
TIME ?=
SESSIONS ?=
BLOCKS ?=
SCHEDULE ?=

# Values reach a command as they were given, whatever is in them: none is expanded by make, on the way into the
# environment of a command neither.
unexport WORKLOAD ENGINE CLIENT SCALE CONFIG DB_BENCH DB_DIR THREADS CPUS NUM_KEYS CACHE_SIZE CACHE_TYPE MEMORY_LIMIT DURATION EVENT FREQ \
	CALLGRAPH COLLECT LADDER_SAMPLE OUT USERS REPEATS RESUME EXPERIMENT A B FACTOR DELTA TIME SESSIONS BLOCKS SCHEDULE STORE
define newline


endef
quoted = '$(subst $(newline),'$$'\n'',$(subst ','\'',$(value $(1))))'
option = $(if $(strip $(value $(2))),$(1)=$(call quoted,$(2)))
PROFILE_OPTIONS = $(call option,--workload,WORKLOAD) $(call option,--engine,ENGINE) $(call option,--client,CLIENT) $(call option,--scale,SCALE) $(call option,--config,CONFIG) \
	$(call option,--db-bench,DB_BENCH) $(call option,--db-dir,DB_DIR) $(call option,--threads,THREADS) $(call option,--cpus,CPUS) \
	$(call option,--num-keys,NUM_KEYS) $(call option,--cache-size,CACHE_SIZE) $(call option,--cache-type,CACHE_TYPE) $(call option,--memory-limit,MEMORY_LIMIT) $(call option,--duration,DURATION) \
	$(call option,--event,EVENT) $(call option,--freq,FREQ) $(call option,--callgraph,CALLGRAPH) \
	$(call option,--collect,COLLECT) $(call option,--ladder-sample,LADDER_SAMPLE) $(call option,--out,OUT) $(call option,--store,STORE)

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev dist profile io-efficiency experiment compare doctor test test-long test-by-hand lint unit bench bench-observers docs bless clean

help: ## list the targets
	@echo "ioflame: where the CPU of one RocksDB read goes, and what it costs in microseconds"
	@echo
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  variables of profile and doctor (docs/usage.md):"
	@echo "    WORKLOAD ENGINE CLIENT SCALE CONFIG DB_BENCH DB_DIR THREADS CPUS NUM_KEYS"
	@echo "    CACHE_SIZE CACHE_TYPE MEMORY_LIMIT DURATION EVENT FREQ CALLGRAPH COLLECT LADDER_SAMPLE OUT STORE"
	@echo "  and of io-efficiency: USERS REPEATS RESUME; of experiment: EXPERIMENT REPEATS RESUME"
	@echo "  and of compare: A B FACTOR DELTA TIME SESSIONS BLOCKS SCHEDULE RESUME"
	@echo "  start with:  make profile WORKLOAD=readrandom SCALE=smoke"
	@echo "  afterwards:  $(BIN)/ioflame --help   (report, flamegraph, ebpf, pmp, ...)"

setup: ## install what a profile needs; seconds when it is there
	@DB_BENCH=$(call quoted,DB_BENCH) bash ioflame/setup.sh

setup-dev: ## setup, and what the tests need (chromium, linters)
	@DB_BENCH=$(call quoted,DB_BENCH) bash ioflame/setup.sh --dev

dist: setup ## one wheel with the programs in it, for hosts without a compiler
	@bash ioflame/dist.sh

profile: setup ## run a workload, profile it, print where its CPU goes
	@$(BIN)/ioflame profile $(PROFILE_OPTIONS)

io-efficiency: setup ## fio against RocksDB: IO efficiency, CPU per read
	@$(BIN)/ioflame experiment io-efficiency $(PROFILE_OPTIONS) \
		$(call option,--users,USERS) $(call option,--repeats,REPEATS) $(call option,--resume,RESUME)

experiment: setup ## EXPERIMENT=NAME of `ioflame list`: its table, and what holds
	@$(BIN)/ioflame experiment $(call quoted,EXPERIMENT) $(PROFILE_OPTIONS) \
		$(call option,--repeats,REPEATS) $(call option,--resume,RESUME)

compare: setup ## two builds (A, B) or settings (FACTOR) in turns: slower or not?
	@$(BIN)/ioflame compare $(if $(strip $(value A)),--arm A=$(call quoted,A)) $(if $(strip $(value B)),--arm B=$(call quoted,B)) \
		$(call option,--factor,FACTOR) $(call option,--delta,DELTA) $(call option,--time,TIME) $(call option,--sessions,SESSIONS) \
		$(call option,--blocks,BLOCKS) $(call option,--schedule,SCHEDULE) $(call option,--resume,RESUME) $(PROFILE_OPTIONS)

doctor: setup ## what this host can measure, a line a check
	@$(BIN)/ioflame doctor $(PROFILE_OPTIONS)

test: setup-dev lint unit ## lint, types, Rust, Python, perf, a browser (10 min)

# IOFLAME_REQUIRE_ALL=1 turns a test that would skip for a missing capability into a failure.
PYTEST = $(BIN)/pytest $(if $(IOFLAME_REQUIRE_ALL),--require-all) --durations 10

# $(1): which. Those that may run beside one another, then those that have the machine for themselves.
define run_pytest
	$(PYTEST) -m '$(1) and not alone and not by_hand' -n auto --dist worksteal
	$(PYTEST) -m '$(1) and alone and not by_hand'
endef

test-long: setup-dev ## services, engines, comparisons, experiments, what goes wrong (11 min); CI runs both
	$(call run_pytest,long)

test-by-hand: setup-dev ## what takes an hour, a quiet machine, or half a gigabyte of others' programs
	tests/setup_by_hand.sh
	$(PYTEST) -m by_hand

# clippy links nothing: any file that is there stands for libFuzzer, which need not be compiled then.
lint: setup-dev ## ruff, mypy, import rules, rustfmt, clippy, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy -q --locked --workspace --all-targets -- -D warnings
	CUSTOM_LIBFUZZER_PATH=folding/fuzz/Cargo.toml \
		$(CARGO) clippy -q --locked --manifest-path folding/fuzz/Cargo.toml --target-dir target -- -D warnings
	shellcheck $(SHELL_SCRIPTS)

unit: setup-dev ## the tests alone: cargo test, pytest
	$(CARGO) test -q --locked --workspace
	$(call run_pytest,not long)

# BENCH: options of the benchmarks, such as '--runs 9' (bench) or '--rounds 5' (bench-observers).
bench: setup-dev ## stackfold, analysis, report page, samplers; goals (20 min)
	@$(BIN)/python -m tests.bench.report_page $(BENCH)
	@$(BIN)/python -m tests.bench.frames $(BENCH)
	@$(BIN)/python -m tests.bench.analysis $(BENCH)
	@$(BIN)/python -m tests.bench.store $(BENCH)
	@$(BIN)/python -m tests.bench.fleet $(BENCH)
	@python3 -m tests.bench.stackfold $(BENCH)
	@$(BIN)/python -m tests.bench.pmp_stops $(BENCH)
	@$(BIN)/python -m tests.bench.client $(BENCH)

bench-observers: setup-dev ## what each observer, and attach, costs servers (25 min, root)
	@$(BIN)/python -m tests.bench.observers $(BENCH)
	@$(BIN)/python -m tests.bench.attach_cost $(BENCH)

EVERY_OBSERVER = $(if $(value COLLECT),,--collect 'perf iolat ladder offcpu runqlat pmp')
LATEST = $(if $(strip $(value OUT)),$(call quoted,OUT),runs)/latest

docs: setup-dev ## the README's pictures and tables, from real runs, an experiment, a comparison
	@$(BIN)/ioflame profile $(PROFILE_OPTIONS) $(EVERY_OBSERVER)
	@first=$$(readlink -f -- $(LATEST)) && $(BIN)/ioflame profile $(PROFILE_OPTIONS) $(EVERY_OBSERVER) && \
		experiment=$$($(BIN)/ioflame experiment trivial-move --scale smoke $(call option,--out,OUT) | sed -n 's/^experiment: *//p') && \
		second=$$(readlink -f -- $(LATEST)) && comparison=$$($(BIN)/ioflame compare --factor cache_type=lru_cache,hyper_clock_cache \
		--config byrx --threads 8 --scale smoke --sessions 4 --blocks 4 --duration 2 $(call option,--out,OUT) | \
		sed -n 's/^comparison: *//p') && \
		$(BIN)/python docs/refresh.py "$$first" "$$second" "$$experiment" "$$comparison"

bless: setup-dev ## write the golden files anew; look at the diff
	BLESS=1 $(CARGO) test -q --locked -p stackfold
	BLESS=1 $(BIN)/pytest -q

clean: ## remove what was built here; runs and databases stay
	rm -rf $(VENV) target dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
