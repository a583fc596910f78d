#!/usr/bin/env bash
# Builds one wheel that holds the Rust programs and the BPF objects inside of them, shell completion and man pages:
# dist/ioflame-*.whl, or DIR/...
# A host that installs it needs neither cargo nor clang; it needs perf, libelf and zlib, and an engine to look at.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-dist}

programs=(stackfold stacksampler ioflame-client)
if [[ -x target/release/ioflame-ebpf ]]; then programs+=(ioflame-ebpf); fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# A copy, so that nothing is left in the checkout.
cp -a ioflame ground workloads collectors ebpf folding viz pyproject.toml README.md LICENSE "$place"
mkdir "$place/ground/system/bin"
if commit=$(git describe --always --dirty '--exclude=*' 2>/dev/null); then echo "$commit" >"$place/ioflame/built_from"; fi
# Symbols stay, which are a tenth: the client's name LevelDB and LMDB, and doctor tries a probe on one of the loader's.
for program in "${programs[@]}"; do
  strip --strip-debug -o "$place/ground/system/bin/$program" "target/release/$program"
done
.venv/bin/python -m ioflame.dist_files "$place"
man=$place/share/man/man1
target/release/stackfold man -o "$man/stackfold.1"
commands=$(target/release/stackfold --help | awk '/^Commands:/, /^$/ {if (/^  [a-z]/ && $1 != "help") print $1}')
for command in $commands; do
  target/release/stackfold man "$command" -o "$man/stackfold-$command.1"
done
platform=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_platform().replace("-", "_").replace(".", "_"))')
mkdir -p "$out"
.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$out" \
  --config-settings=--build-option=--plat-name="$platform" "$place"
ls -l "$out"/ioflame-*"$platform".whl
