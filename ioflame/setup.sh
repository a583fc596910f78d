#!/usr/bin/env bash
# Installs what ioflame needs, and says so before it does: system packages, .venv, the stackfold binary.
# Run it as often as you like: what is there is left alone. `--dev` adds what `make test` needs, `--long` what
# `make test-long` needs beyond that, `--by-hand` services and what takes half a gigabyte, for `make test-by-hand`.
# With LEAST=1 in the environment (make profile) only what a profile of RocksDB uses, with LEAST=perf what one by perf alone does: the
# first command that uses the rest installs it.
# Exit codes: 0 done, 3 this host lacks something that only you can give it (the exact command is printed).
set -euo pipefail
cd "$(dirname "$0")/.."

MINIMUM_PYTHON="3.10"
MINIMUM_RUST="1.88"
# rustc's packer of split debug information: the one that takes DWARF 5 of gcc.
THORIN_VERSION="0.10.1"
# As Maven Central has RocksDB for Java: version and sha256.
JNI_VERSION="9.10.0"
JNI_SUM="d68a10df820c811020ca27a332718e823cf577086f2eda9512b5f8e77bd17525"
# 0 a profile, 1 the tests, 2 the long ones, 3 those by hand.
tier=0
again="make setup${1:+-${1#--}}"
case "${1:-}" in
  --dev) tier=1 ;;
  --long) tier=2 ;;
  --by-hand) tier=3 ;;
esac

say() { printf 'setup: %s\n' "$*"; }

refuse() { # refuse WHAT COMMAND
  printf 'setup: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 3
}

# Names of packages elsewhere, and the command that installs them by hand.
. ioflame/setup_names.sh

# --- system packages: asked for by the command they bring, so that your own builds count ---------------------------
PATH="$PATH:/usr/sbin:/sbin" # Debian keeps bpftool and bcc's tools there, outside of a user's PATH
missing=()
need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

has_library() { # has_library FILE; a compiler that knows none prints its bare name
  [[ "$(cc -print-file-name="$1" 2>/dev/null)" == /* ]]
}

perf_package() {
  # Ubuntu ships perf for each kernel; Debian ships one that works with all.
  if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
    printf 'linux-tools-generic linux-tools-%s' "$(uname -r)"
  else
    printf 'linux-perf'
  fi
}

perf --version >/dev/null 2>&1 || read -r -a missing <<<"$(perf_package)"
if [[ -z "${LEAST:-}" ]]; then
  need bpftrace bpftrace
  need fio fio
fi
[[ -n "${DB_BENCH:-}" ]] || need db_bench rocksdb-tools
if [[ -z "${LEAST:-}" ]]; then
  need gdb gdb
  need eu-stack elfutils
fi
need setpriv util-linux
need cc gcc
# What the target of make needs beside.
for one in ${NEEDS:-}; do
  case $one in
    valgrind) need valgrind valgrind ;;
    jemalloc) [[ "$(ldconfig -p 2>/dev/null)" == *libjemalloc.so* ]] || missing+=(libjemalloc2) ;;
  esac
done
# What is built is kept up to date.
if [[ "${LEAST:-}" == perf && -x target/release/ioflame-ebpf ]]; then LEAST=1; fi
# What the CO-RE programs are compiled with, and libbpf, which their loader brings along. Without them bpftrace does it.
compiling=()
if [[ "${LEAST:-}" != perf ]]; then
  command -v clang >/dev/null 2>&1 || compiling+=(clang)
  command -v pkg-config >/dev/null 2>&1 || compiling+=(pkg-config)
  [[ -e /usr/include/libelf.h ]] || compiling+=(libelf-dev)
  [[ -e /usr/include/zlib.h ]] || compiling+=(zlib1g-dev)
fi
# What our own client drives beside RocksDB. Without them it is built without these engines.
engines=()
if [[ -z "${LEAST:-}" ]]; then
  has_library libleveldb.a || engines+=(libleveldb-dev)
  has_library libsnappy.a || engines+=(libsnappy-dev)
  has_library liblmdb.a || engines+=(liblmdb-dev)
fi
# Names of what libc does within its own functions; of the very version that is here, so that nothing else is changed.
# Asked for once: who took the package away, or could not have it, is advised by doctor.
names=()
if [[ ! -e .venv/ioflame-requirements.stamp ]] &&
  libc=$(dpkg-query -W -f '${Version}' libc6 2>/dev/null) && ! dpkg-query -W libc6-dbg >/dev/null 2>&1; then
  names=("libc6-dbg=$libc")
fi
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)
if ((tier >= 1)); then
  need chromium chromium
  need shellcheck shellcheck
  # A picture of the page, smaller (make docs).
  need pngquant pngquant
fi
if ((tier >= 2)); then
  # bcc's biolatency, one of the programs behind `ebpf iolat`.
  need biolatency libbpf-tools
  # bpftool: what is left behind in the kernel.
  need bpftool bpftool
  # Debug information of many units packed into one file, and symbols packed in a program.
  need llvm-dwp llvm
  need dwp binutils-gold
  need xz xz-utils
  # bash has a word `time` of its own, which is no program.
  [[ -x /usr/bin/time ]] || missing+=(time)
  # A server of names, which a test starts on a port of its own, and its client.
  need debuginfod debuginfod
  # What tests run is compiled, in part from C++.
  need g++ g++
  # A program in Go to be observed, and what reads pprof.
  need go golang-go
  # Its counts are an input of stackfold.
  need valgrind valgrind
  # Allocators that services bring along.
  has_library libjemalloc.so || missing+=(libjemalloc-dev)
  has_library libmimalloc.so || missing+=(libmimalloc-dev)
  has_library libtcmalloc_minimal.so || missing+=(libgoogle-perftools-dev)
fi
if ((tier >= 3)); then
  # Servers that the tests attach to; the tests start them, and no service has to run.
  before=${#missing[@]}
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
  need mariadbd mariadb-server
  servers=$((${#missing[@]} - before))
  [[ -e /usr/lib/mysql/plugin/ha_rocksdb.so ]] || missing+=(mariadb-plugin-rocksdb)
  need sysbench sysbench
  # What fetches a release of RocksDB, and what runs one for Java, and Spark.
  need mvn maven
  need javac default-jdk-headless
fi

manager=
for one in zypper dnf apt-get; do
  if command -v "$one" >/dev/null 2>&1; then manager=$one; fi
done
as_root=()
may_install=1
if [[ $manager != apt-get ]]; then
  may_install=0
elif [[ $EUID -ne 0 ]]; then
  as_root=(sudo)
  if ! command -v sudo >/dev/null 2>&1 || ! { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    may_install=0
  fi
fi
updated=0
install() { # install PACKAGE...; fails where it may not
  ((may_install)) || return
  say "installing system packages: $*"
  ((updated)) || "${as_root[@]}" apt-get update -qq || return
  updated=1
  # By its standard output: sudo closes the others.
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -o APT::Status-Fd=1 install -y --no-install-recommends "$@" | apt_progress
}
left() { # left SECONDS
  if (($1 < 60)); then printf 'less than a minute left'; else printf 'about %d min left' $((($1 + 59) / 60)); fi
}
# A line for each fifth of what apt downloads, and then of what it unpacks: `dlstatus:NUMBER:PERCENT:WORDS`.
apt_progress() {
  local kind percent last='' fifth began
  while IFS=: read -r kind _ percent _; do
    [[ $kind =~ ^(dl|pm)status$ && $percent =~ ^([0-9]+) ]] || continue
    percent=${BASH_REMATCH[1]}
    [[ $kind == "$last" ]] || { last=$kind fifth=0 began=$SECONDS; }
    ((percent / 20 > fifth)) || continue
    fifth=$((percent / 20))
    case $kind in
      dlstatus) kind=downloaded ;;
      *) kind=installed ;;
    esac
    say "apt: $percent % $kind, $(left $(((SECONDS - began) * (100 - percent) / percent)))"
  done
}
# What cargo prints, without its moving bar `[==> ] 9/55: name`: of that a line for each tenth of the crates.
progress() {
  local part line bar='\] ([0-9]+)/([0-9]+): ?([^ (,]*)' tenth=-1 first='' began=$SECONDS built
  while IFS= read -r -d $'\r' part || [[ -n $part ]]; do
    while IFS= read -r line; do
      if [[ $line =~ $bar ]]; then
        ((BASH_REMATCH[1] * 10 / BASH_REMATCH[2] > tenth)) || continue
        tenth=$((BASH_REMATCH[1] * 10 / BASH_REMATCH[2]))
        first=${first:-${BASH_REMATCH[1]}}
        built=$((BASH_REMATCH[1] - first))
        say "cargo: crate ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}${BASH_REMATCH[3]:+ (${BASH_REMATCH[3]})}$(
          ((built == 0)) || printf ', %s' "$(left $(((SECONDS - began) * (BASH_REMATCH[2] - BASH_REMATCH[1]) / built)))"
        )"
      elif [[ $line =~ ^\ *(Downloading\ crates|Downloaded\ [0-9]+\ crates.*) ]]; then
        say "cargo: ${BASH_REMATCH[1],}"
      elif [[ ! $line =~ ^\ *(Compiling|Download|Updating|Locking|Finished|Blocking|$) ]]; then
        printf '%s\n' "$line" >&2
      fi
    done <<<"$part"
  done
}
without() { # without WHAT-IS-LOST PACKAGE...
  say "without ${*:2} $1"
  say "  fix: $(by_hand "${@:2}"), then run this again"
}

if ((${#missing[@]})); then
  if [[ $manager != apt-get ]]; then
    refuse "missing: ${missing[*]}; there is no apt here" "$(by_hand "${missing[@]}" "${compiling[@]}" "${engines[@]}"), then run this again"
  fi
  ((may_install)) || refuse "missing: ${missing[*]}; installing them takes root" "$(by_hand "${missing[@]}")"
fi
core=1
wanted=("${missing[@]}" "${compiling[@]}" "${engines[@]}" "${names[@]}")
# All are named whatever is built: features are decided over all.
crates=(stackfold stacksampler ioflame-client)
needed=(stackfold stacksampler)
if [[ -z "${LEAST:-}" || -x target/release/ioflame-client ]]; then needed+=(ioflame-client); fi
bpf=(--package=ioflame-ebpf)
if [[ "${LEAST:-}" == perf ]]; then core=0 crates=(stackfold) needed=(stackfold) bpf=(); fi
groups=()
beside() { # beside COMMAND...: in a group of its own, so that it ends with us
  set -m
  "$@" &
  set +m
  groups+=("$!")
}
end_groups() {
  local group
  for group in "${groups[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}
trap end_groups EXIT
build() { # build OPTION...; says how far it is
  CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 cargo build --release --locked "${crates[@]/#/--package=}" "$@" 2>&1 | progress
}
libraries() { # what fails is said by the build of the programs, which repeats it
  build "${bpf[@]}" --lib 2>/dev/null
}
# What needs no system package is compiled while they are installed.
if ((${#wanted[@]} && may_install)) && [[ ! -x target/release/stackfold ]] && command -v cargo >/dev/null 2>&1; then
  beside libraries
fi
# All at once where that goes; one by one where a part of them cannot be had.
if ((${#wanted[@]})) && ! install "${wanted[@]}"; then
  if ((${#missing[@]})); then
    install "${missing[@]}" || refuse "apt could not install: ${missing[*]}" "$(by_hand "${missing[@]}")"
  fi
  if ((${#compiling[@]})) && ! install "${compiling[@]}"; then
    core=0
    [[ -z "${LEAST:-}" ]] || command -v bpftrace >/dev/null 2>&1 || install bpftrace || true
    without "the CO-RE programs are not built: bpftrace is used, which is less exact; there is no
setup:   off-CPU time then, and no latency ladder" "${compiling[@]}"
  fi
  if ((${#engines[@]})) && ! install "${engines[@]}"; then
    without "LevelDB or LMDB cannot be measured" "${engines[@]}"
  fi
  if ((${#names[@]})) && ! install "${names[@]}"; then
    without "frames within libc have no names of their own; make doctor says what that means" "${names[@]}"
  fi
fi
if ((${servers:-0})); then
  say "where systemd runs, these packages start PostgreSQL and MariaDB as services, which ioflame does not need;"
  say "  to end them: sudo systemctl disable --now postgresql mariadb"
fi

at_least() { # at_least VERSION MINIMUM
  [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

online="$again   (with a network: pip and cargo also take HTTPS_PROXY=<URL of a proxy>)"

# --- the Rust crates ---------------------------------------------------------------------------------------------------
programs() {
  rust="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh   (https://rustup.rs)"
  command -v cargo >/dev/null 2>&1 || refuse "cargo is not installed; parts of ioflame are written in Rust" "$rust"
  if ! cargo --version >/dev/null 2>&1; then
    # A rustup that another HOME installed: its toolchains lie beside the cargo that is on PATH.
    cargo_home=$(dirname "$(dirname "$(command -v cargo)")")
    if [[ -z "${RUSTUP_HOME:-}" && -d "${cargo_home%/*}/.rustup" ]]; then
      export RUSTUP_HOME="${cargo_home%/*}/.rustup" CARGO_HOME="$cargo_home"
    fi
    cargo --version >/dev/null 2>&1 || refuse "$(command -v cargo) does not run: rustup has no toolchain for this user" "rustup default stable"
  fi
  version=$(cargo --version | cut -d ' ' -f 2)
  at_least "$version" "$MINIMUM_RUST" ||
    refuse "cargo is $version; ioflame needs $MINIMUM_RUST (Debian's and Ubuntu's are too old)" "$rust"
  if ((core)); then crates+=(ioflame-ebpf) needed+=(ioflame-ebpf); fi
  unbuilt=()
  # cargo sees a change of a file, not a new folder: these carry a copy of each engine's rules.
  if [[ -x target/release/stackfold && "$(printf '%s\n' workloads/engines/*/)" != "$(cat target/engines 2>/dev/null)" ]]; then
    touch folding/build.rs ebpf/build.rs
  fi
  for crate in "${needed[@]}"; do
    [[ -x "target/release/$crate" ]] || unbuilt+=("$crate")
  done
  ((${#unbuilt[@]} == 0)) || say "building ${unbuilt[*]} (cargo build --release; some minutes on two cores)"
  packer=
  if ((tier >= 2)) && [[ "$(target/dev-tools/bin/thorin --version 2>/dev/null)" != *" $THORIN_VERSION" ]]; then
    say "building thorin $THORIN_VERSION, which packs split debug information for the tests"
    cargo install -q --debug --locked --root target/dev-tools --version "$THORIN_VERSION" thorin-dwp-bin &
    packer=$!
  fi
  if ((${#unbuilt[@]})); then
    build "${needed[@]/#/--bin=}"
  else
    cargo build -q --release --locked "${crates[@]/#/--package=}" "${needed[@]/#/--bin=}"
  fi || refuse "cargo could not build ${needed[*]} (its words are above)" "$online"
  printf '%s\n' workloads/engines/*/ >target/engines
  [[ -z $packer ]] || wait "$packer" || refuse "cargo could not build thorin (its words are above)" "$online"
}
# Meanwhile the Python packages are fetched.
beside programs
building=$!

# --- Python ------------------------------------------------------------------------------------------------------
# A set-up that was killed leaves a Python without pip, another place's .venv one that does not start.
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  version=$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null || echo 0)
  at_least "$version" "$MINIMUM_PYTHON" ||
    refuse "python3 is $version; ioflame needs $MINIMUM_PYTHON" "install Python $MINIMUM_PYTHON or newer, as python3 on PATH"
  say "making .venv with Python $version"
  python3 -m venv --clear .venv || refuse "python3 -m venv could not make .venv (its words are above)" "rm -r .venv; $again"
fi

pip_install() { # pip_install ARGUMENT...; its warnings would bury all else: what it says is printed where it fails
  local said
  said=$(.venv/bin/python -m pip install -q --disable-pip-version-check --no-input "$@" 2>&1) || {
    printf '%s\n' "$said" >&2
    return 1
  }
}
requirements="requirements.txt"
if ((tier)); then requirements="requirements-dev.txt"; fi
stamp=.venv/ioflame-$(basename "$requirements" .txt).stamp
if ! sha256sum --status -c "$stamp" 2>/dev/null; then
  say "installing $(grep -c '^[a-zA-Z]' "$requirements" || true) Python packages of $requirements into .venv"
  pip_install -r "$requirements" ||
    refuse "pip could not install the packages of $requirements (its words are above)" "$online"
  pip_install --no-build-isolation --no-deps -e . ||
    refuse "pip could not install ioflame itself (its words are above)" "rm -r .venv; $again"
  # Who has what the tests need has what a profile needs, too.
  sha256sum requirements.txt pyproject.toml >.venv/ioflame-requirements.stamp
  if ((tier)); then sha256sum requirements.txt "$requirements" pyproject.toml >"$stamp"; fi
fi

# A third of what a command takes to start, where it may not write beside our files, or PYTHONDONTWRITEBYTECODE is set.
{ .venv/bin/python -m compileall -q ioflame ground collectors ebpf folding viz workloads &&
  env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -c 'import viz.page.rendering as page; page.compile_templates()'; } ||
  refuse "Python could not compile ioflame (its words are above)" "$again"

# Completion for shells, and man pages, which man finds beside a bin in PATH. Who asked for a set-up reads how to have it.
asked=
if [[ " ${GOALS-setup} " == *" setup"* ]]; then asked=1; fi
share="$PWD/.venv/share"
completion="$share/bash-completion/completions/ioflame"
if [[ -e $completion ]]; then
  stale=$(find ioflame ground workloads -newer "$completion" \( -name '*.py' -o -name '*.toml' \) -print -quit)
else
  stale=$asked
fi
[[ -z $stale ]] || .venv/bin/python -m ioflame.dist_files .venv ||
  refuse "Python could not write the shell completion (its words are above)" "$again"

wait "$building" || exit
trap - EXIT

if [[ -n $asked ]]; then
  say "done. Completion of ioflame's commands and options, for the start file of your shell:"
  printf '  bash: source %q\n' "$completion"
  printf '  zsh:  fpath+=(%q); autoload -U compinit && compinit\n' "$share/zsh/site-functions"
  printf '  fish: source %q\n' "$share/fish/vendor_completions.d/ioflame.fish"
fi

if ((tier >= 3)); then
  cache="${XDG_CACHE_HOME:-$HOME/.cache}/ioflame"
  jar="$cache/rocksdbjni.jar"
  if ! sha256sum --status -c - <<<"$JNI_SUM  $jar" 2>/dev/null; then
    say "fetching rocksdbjni $JNI_VERSION into $cache"
    mkdir -p "$cache"
    trap 'rm -f "$jar.$$"' EXIT
    curl -fsSL -m 300 -o "$jar.$$" "https://repo1.maven.org/maven2/org/rocksdb/rocksdbjni/$JNI_VERSION/rocksdbjni-$JNI_VERSION.jar"
    sha256sum -c - <<<"$JNI_SUM  $jar.$$"
    mv "$jar.$$" "$jar"
  fi
  pip_install -r requirements-spark.txt
fi
