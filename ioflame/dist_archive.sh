#!/usr/bin/env bash
# Packs what a server without a compiler takes: dist/ioflame-VERSION-x86_64.tar.xz, or DIR/...: unpack it, ./ioflame.
# Inside are the programs, linked to glibc 2.30 and with their other libraries in them, and the Python packages of
# requirements.txt for each Python from 3.10 on. The wheel, which dist.sh has left in the same place, holds the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-dist}

TARGET=x86_64-unknown-linux-gnu
OLDEST_GLIBC=2.30 # Debian 11 and Ubuntu 20.04 have 2.31
PYTHONS=(3.10 3.11 3.12 3.13 3.14 3.15)
build=$PWD/target/dist

refuse() { # refuse WHAT COMMAND
  printf 'dist: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 3
}

# --- the programs ------------------------------------------------------------------------------------------------------
[[ "$(uname -m)" == x86_64 ]] || refuse "this is $(uname -m); the archive is made on x86_64 alone" "make dist, on an x86_64"
mkdir -p "$build/lib" "$build/include"
# zig takes its own glibc's headers and libraries, so only what is not glibc's is shown to it.
for file in lib/libelf.a lib/libz.a include/libelf.h include/gelf.h include/zlib.h include/zconf.h; do
  found=$(cc -print-file-name="${file#lib/}")
  if [[ $file == include/* ]]; then found=/usr/$file; fi
  [[ -e "$found" ]] || refuse "${file#*/} is not installed; ioflame-ebpf is linked with it" "sudo apt-get install libelf-dev zlib1g-dev"
  ln -sf "$(realpath "$found")" "$build/$file"
done
for tool in clang xz; do
  command -v "$tool" >/dev/null 2>&1 || refuse "$tool is not installed" "sudo apt-get install clang xz-utils"
done
# zig knows the symbols of every glibc: no old system has to be at hand. 250 MB, for whoever makes an archive.
tools=$build/tools/bin
[[ -x "$tools/pip" ]] || python3 -m venv --clear "$build/tools"
"$tools/pip" install -q --disable-pip-version-check cargo-zigbuild==0.24.0 ziglang==0.17.0 ||
  refuse "pip could not install cargo-zigbuild and zig (its words are above)" "make dist   (with a network)"
programs=(stackfold stacksampler ioflame-client ioflame-ebpf)
PATH="$tools:$PATH" LIBBPF_SYS_LIBRARY_PATH_x86_64_unknown_linux_gnu=$build/lib LIBBPF_SYS_EXTRA_CFLAGS=-I$build/include \
  cargo zigbuild -q --release --locked --target "$TARGET.$OLDEST_GLIBC" --target-dir "$build" "${programs[@]/#/--package=}" \
  --features ioflame-ebpf/static,ioflame-client/static ||
  refuse "cargo could not link the programs to glibc $OLDEST_GLIBC (its words are above)" \
    "make dist, on Debian 12 or Ubuntu 22.04: static libraries of later ones ask for symbols that an old glibc lacks"

# --- the tree ----------------------------------------------------------------------------------------------------------
version=$(.venv/bin/python -c 'import ioflame; print(ioflame.__version__)')
name=ioflame-$version-x86_64
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tree=$place/$name
lib=$tree/lib
mkdir -p "$lib" "$tree/licenses"
download() { # download PYTHON REQUIREMENT...
  .venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$place/wheels" \
    --platform manylinux2014_x86_64 --python-version "$@"
}
# All but what builds. pip reads the markers for the Python that runs it, so the one package with a marker is named.
grep -vE '^(setuptools|shtab)=|;' requirements.txt >"$place/requirements.txt"
{ for python in "${PYTHONS[@]}"; do download "$python" -r "$place/requirements.txt" || exit; done &&
  download 3.10 "$(grep -o '^tomli==[^;]*' requirements.txt)"; } ||
  refuse "pip could not fetch the packages of requirements.txt (its words are above)" "make dist   (with a network)"
# Compiled modules are named by their Python, so those of all lie side by side.
for wheel in "$out/ioflame-$version"-*linux_x86_64.whl "$place"/wheels/*.whl; do
  .venv/bin/python -m zipfile -e "$wheel" "$lib"
done
mv "$lib/ioflame-$version.data/data/share" "$tree/share"
rm -r "$lib/ioflame-$version.data"
for program in "${programs[@]}"; do
  strip --strip-debug -o "$lib/ground/system/bin/$program" "$build/$TARGET/release/$program"
done
newest=$(objdump -T "$lib"/ground/system/bin/* | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
[[ "$(printf '%s\n' "$newest" "GLIBC_$OLDEST_GLIBC" | sort -V | tail -n 1)" == "GLIBC_$OLDEST_GLIBC" ]] ||
  refuse "a program asks for $newest; it would not start where glibc is $OLDEST_GLIBC" "rm -r target/dist; make dist"
install -m 755 ioflame/launcher.py "$tree/ioflame"

# --- what is in it, and under which licences -----------------------------------------------------------------------------
for package in libelf-dev zlib1g-dev libleveldb-dev libsnappy-dev liblmdb-dev "$(dpkg -S "$(realpath "$(cc -print-file-name=libstdc++.a)")" | cut -d : -f 1)"; do
  if [[ -e /usr/share/doc/$package/copyright ]]; then cp "/usr/share/doc/$package/copyright" "$tree/licenses/$package"; fi
done
cp /usr/share/common-licenses/{LGPL-3,LGPL-2.1,GPL-3,GPL-2} "$tree/licenses"
cargo tree --locked -e normal --prefix none --no-dedupe --format '{p}: {l}' "${programs[@]/#/--package=}" | grep -v ' (/' | sort -u >"$tree/licenses/rust-crates"
sed "s/@LIBELF@/$(dpkg-query -W -f '${source:Package} ${source:Version}' libelf-dev)/; s/@COMMIT@/$(cat "$lib/ioflame/built_from")/" \
  ioflame/NOTICE >"$tree/NOTICE"
cp LICENSE README.md "$tree"

mkdir -p "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$place" -c "$name" | xz -T0 -9 >"$out/$name.tar.xz"
ls -l "$out/$name.tar.xz"
