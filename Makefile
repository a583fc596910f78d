# ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?
# `make` exits with 2 whenever a command failed; the command's own exit code is in make's message (Error 1, 2, 3).

VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo
SHELL_SCRIPTS := ioflame/setup.sh ioflame/setup_names.sh ioflame/dist.sh ioflame/dist_archive.sh .ci/run folding/fuzz/seeds.sh .cargo/clippy.sh \
	tests/kernels/guest/init tests/kernels/guest/job.sh

SHELL := bash

# What the commands take as variables says their own list; so that python3 of any age may print it, it imports nothing.
OPTIONS := $(shell python3 ground/settings.py 2>/dev/null)
KNOWN := $(OPTIONS) A B CMD EXPERIMENT BENCH HOSTS KERNELS LUCK IOFLAME_REQUIRE_ALL CARGO VENV BIN SHELL
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))

# A misspelt one would be left out without a word, and a long run would measure something else.
UNKNOWN := $(if $(OPTIONS),$(firstword $(filter-out $(KNOWN),$(GIVEN))))
NEAREST = import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1, 0.0))
ifneq ($(UNKNOWN),)
define refusal
$(UNKNOWN) is not a variable of this Makefile
  meaning: it would have no effect; nothing was started
  fix: $(shell python3 -c '$(NEAREST)' '$(subst ','\'',$(UNKNOWN))' $(KNOWN))=... (make help lists them), or, for the environment of a command: $(UNKNOWN)=... make ...
endef
$(error $(refusal))
endif

# They reach a command by its environment, as they were given: what is in them is not expanded. With IOFLAME_BY it reads
# them, and messages name these variables instead of options.
$(foreach name,$(filter-out SHELL,$(GIVEN)),$(eval override export $(name) := $$(value $(name))))
export IOFLAME_BY := make

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-long setup-by-hand dist profile run io-efficiency experiment compare count sweep doctor test test-quick test-long test-by-hand test-luck test-hosts test-kernels lint lint-python lint-rust unit unit-rust unit-python bench bench-observers bench-nulls docs bless clean

help: ## list the targets
	@echo "ioflame: where the CPU of one RocksDB read goes, and what it costs in microseconds"
	@echo
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@python3 ground/settings.py help
	@echo "  start with:  make profile WORKLOAD=readrandom SCALE=smoke"
	@echo "  afterwards:  $(BIN)/ioflame --help   (report, flamegraph, ebpf, pmp, ...)"

# Whoever asks for a set-up reads what else it brings.
export GOALS := $(MAKECMDGOALS)
# What a target needs beside what a profile does, for its set-up.
export NEEDS :=
ALLOCATOR_NEEDED = $(filter jemalloc,$(or $(strip $(value ALLOCATOR)),jemalloc))
count: NEEDS = $(strip $(if $(filter processor,$(value BY)),,valgrind) $(ALLOCATOR_NEEDED))
# Of RocksDB by its own client; every other target installs the rest. Only perf watches at smoke, unless others are asked for.
profile: export LEAST = $(if $(filter-out rocksdb,$(value ENGINE))$(value CLIENT)$(value ROCKSDB),,$(if \
	$(filter-out smoke,$(value SCALE))$(if $(value SCALE),,1)$(value COLLECT)$(value TAIL),1,perf))
compare: NEEDS = $(if $(strip $(value COUNT) $(value OPERATION)),valgrind jemalloc)

setup: ## install what a profile needs; seconds when it is there
	@bash ioflame/setup.sh

setup-dev: ## setup, and what `make test` needs (chromium, linters)
	@bash ioflame/setup.sh --dev

setup-long: ## setup-dev, and what `make test-long` needs (compilers, valgrind, allocators)
	@bash ioflame/setup.sh --long

setup-by-hand: ## setup-long, and PostgreSQL, MariaDB, Maven, Java, Spark
	@bash ioflame/setup.sh --by-hand

dist: setup ## a wheel, and an archive for servers without compiler or pip
	@bash ioflame/dist.sh
	@bash ioflame/dist_archive.sh

profile: setup ## run a workload, profile it, print where its CPU goes
	@$(BIN)/ioflame profile

run: setup ## CMD='./db_bench --flags', or a script: started and profiled
	@$(BIN)/ioflame run -- "$$CMD"

io-efficiency: export USERS ?= 1 2
io-efficiency: setup ## fio against RocksDB: IO efficiency, CPU per read
	@$(BIN)/ioflame experiment io-efficiency

experiment: setup ## EXPERIMENT=NAME of `ioflame list`: its table, and what holds
	@$(BIN)/ioflame experiment "$$EXPERIMENT"

compare: setup ## two builds (A, B) or settings (FACTOR) in turns: slower or not?
	@$(BIN)/ioflame compare $${A:+--arm "A=$$A"} $${B:+--arm "B=$$B"}

count: setup ## instructions of a Get, a Put, a compaction: no noise
	@$(BIN)/ioflame count

sweep: setup ## which rate can it sustain? latency by the rate of queries
	@$(BIN)/ioflame sweep

doctor: setup ## what this host can measure, a line a check
	@$(BIN)/ioflame doctor

# mypy beside cargo: each waits for one CPU most of the time.
test: setup-dev ## lint, types, Rust, Python, one real profile, a browser (5 min)
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint-python unit-rust
	@$(MAKE) --no-print-directory unit-python

# IOFLAME_REQUIRE_ALL=1 turns a test that would skip for a missing capability into a failure.
PYTEST = $(BIN)/pytest $(if $(IOFLAME_REQUIRE_ALL),--require-all) --durations 10
BESIDE = -n auto --dist worksteal

test-quick: ## tests without root, perf, a browser or a database: a minute, after make setup-dev
	@test -x $(BIN)/pytest || { echo "pytest is not installed in $(VENV): make setup-dev" >&2; exit 2; }
	$(BIN)/pytest -q -m 'not (needs or long or by_hand)' $(BESIDE)

test-long: setup-long ## perf, eBPF, engines, browsers, comparisons, faults (18 min); CI runs both
	$(PYTEST) -m long $(BESIDE)

test-by-hand: setup-by-hand ## measurements that agree, simulations, services: figures, hours, a quiet machine
	$(PYTEST) -m by_hand --times 3
	$(PYTEST) --random-examples $(BESIDE)
	$(CARGO_TEST) --package stackfold-tests --features random
	FRAMEDIFF_TIMES=1000 $(CARGO_TEST) --package framediff

test-luck: setup-long ## do the tests pass 20 times in a row, 10 of them beside busy loops? (8 h)
	$(BIN)/python -m tests.luck $(LUCK)

test-hosts: setup-dev ## set-up and a profile in roots of Debian 12, 13, sid; the archive (root, 15 min each)
	$(BIN)/python -m tests.hosts $(HOSTS)

test-kernels: setup-dev ## every eBPF instrument on Debian's kernels 6.1 to the newest, in qemu without KVM (root, 30 min)
	$(BIN)/python -m tests.kernels $(KERNELS)

lint: lint-python lint-rust ## ruff, mypy, import rules, rustfmt, clippy, shellcheck

lint-python: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	shellcheck $(SHELL_SCRIPTS)

# Built once: clippy stands for rustc where our crates are built for tests, and all else is what set-up has built.
CRATES := --package=stackfold --package=stacksampler --package=ioflame-client --package=ioflame-ebpf
CARGO_TEST = $(CARGO) test -q --locked --profile bench
CARGO_TESTS = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/.cargo/clippy.sh $(CARGO_TEST) --workspace --lib --bins --tests --examples

# The second build only repeats what rustc said of the programs as they are shipped: nothing.
lint-rust: setup-dev
	$(CARGO) fmt --all -- --check
	$(CARGO_TESTS) --no-run
	test -z "$$($(CARGO) build -q --release --locked $(CRATES) 2>&1)"

unit: unit-rust unit-python ## the tests alone: cargo test, pytest

unit-rust: setup-dev lint-rust
	$(CARGO_TESTS)

unit-python: setup-dev
	$(PYTEST) -m 'not (long or by_hand)' $(BESIDE)

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

bench-nulls: setup-dev ## how often nothing is called an effect: 40 runs, and 40 beside busy loops (2 h)
	@$(BIN)/python -m tests.bench.nulls $(BENCH)
	@$(BIN)/python -m tests.bench.nulls --loops 4 $(BENCH)

EVERY_OBSERVER = $(if $(value COLLECT),,--collect 'perf iolat ladder offcpu runqlat pmp requests')
LATEST = "$${OUT:-runs}/latest"

docs: setup-dev ## the README's pictures and tables, from real runs, an experiment, a comparison
	@$(BIN)/ioflame profile $(EVERY_OBSERVER)
	@first=$$(readlink -f -- $(LATEST)) && $(BIN)/ioflame profile $(EVERY_OBSERVER) && \
		experiment=$$($(BIN)/ioflame experiment trivial-move --scale smoke | sed -n 's/^experiment: *//p') && \
		second=$$(readlink -f -- $(LATEST)) && comparison=$$($(BIN)/ioflame compare --factor cache_type=lru_cache,hyper_clock_cache \
		--config byrx --threads 8 --scale smoke --sessions 4 --blocks 4 --duration 2 | \
		sed -n 's/^comparison: *//p') && \
		$(BIN)/python -m docs.refresh "$$first" "$$second" "$$experiment" "$$comparison"

screens: setup-dev ## the screens of the documentation, from docs/recorded by today's code (seconds)
	@$(BIN)/python -m docs.screens

bless: setup-dev ## write the golden files anew; look at the diff
	BLESS=1 $(CARGO_TEST) --package stackfold-tests
	BLESS=1 $(BIN)/pytest -q

clean: ## remove what was built here; runs and databases stay
	rm -rf $(VENV) target dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
