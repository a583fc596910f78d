#!/usr/bin/env bash
# Writes inputs for the fuzz targets to begin with into corpus/, made by the real tools: gcc, objcopy, xz and perf.
set -euo pipefail
cd "$(dirname "$0")"
stackfold=${STACKFOLD:-../../target/release/stackfold}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p corpus/{elf,perf_data,perf_script,stacks}

cat >"$scratch/f.c" <<'C'
static volatile unsigned sink;
static inline void turn(unsigned n) { while (n--) sink += n; }
static __attribute__((noinline)) void inner(unsigned n) { turn(n); turn(n + 1); }
void outer(void) { inner(30000); sink++; }
C
build() { # build NAME FLAG...: a small shared library
  (cd "$scratch" && gcc -O1 -fno-omit-frame-pointer -shared -fPIC -nostdlib "${@:2}" -o "$1" f.c)
  cp "$scratch/$1" "corpus/elf/$1"
}
build plain
build dwarf5 -g -gdwarf-5
build dwarf4 -g -gdwarf-4
build frames -g -fno-asynchronous-unwind-tables -funwind-tables -Wl,--no-eh-frame-hdr
build split -g -gsplit-dwarf
cp "$scratch"/*.dwo corpus/elf/
# Frames in another register, and where an expression says.
cat >"$scratch/aligned.s" <<'S'
aligned: .cfi_startproc
  push %rbx; .cfi_adjust_cfa_offset 8; .cfi_rel_offset %rbx, 0
  mov %rsp, %rbx; .cfi_def_cfa_register %rbx; call aligned
  .cfi_escape 0x0f, 5, 0x77, 16, 0x06, 0x23, 8
  .cfi_escape 0x10, 6, 2, 0x76, 8
  call aligned; ret; .cfi_endproc
S
gcc -shared -nostdlib -o corpus/elf/aligned "$scratch/aligned.s"
# A rule that jumps to itself.
cat >"$scratch/endless.s" <<'S'
endless: .cfi_startproc
  .cfi_escape 0x16, 16, 3, 0x2f, 0xfd, 0xff
  call endless; ret; .cfi_endproc
S
gcc -shared -nostdlib -o corpus/elf/endless "$scratch/endless.s"
for how in zlib zlib-gnu zstd; do
  objcopy --compress-debug-sections="$how" "$scratch/dwarf5" "corpus/elf/$how"
done
objcopy --strip-all --keep-symbol=inner "$scratch/plain" "$scratch/small"
xz -k "$scratch/small"
objcopy --strip-all --add-section=.gnu_debugdata="$scratch/small.xz" "$scratch/plain" corpus/elf/packed

cat >"$scratch/main.c" <<'C'
void outer(void);
int main(void) { for (int i = 0; i < 2000; i++) outer(); }
C
gcc -O1 -g -fno-omit-frame-pointer -o "$scratch/main" "$scratch/main.c" "$scratch/f.c"
recording() { # recording NAME FLAG...: behind the byte with the options
  perf record -q -N -o - "${@:2}" -- "$scratch/main" >"$scratch/piped" 2>/dev/null
  { printf '\x20' && cat "$scratch/piped"; } >"corpus/perf_data/piped-$1"
  perf record -q -N -o "$scratch/$1" "${@:2}" -- "$scratch/main" >/dev/null 2>&1
  { printf '\x10' && cat "$scratch/$1"; } >"corpus/perf_data/$1"
  { printf '\x08\x07' && perf script -i "$scratch/$1" --show-mmap-events; } >"corpus/perf_script/$1" 2>/dev/null
}
recording fp -e cpu-clock -F 99 -g
recording dwarf -e cpu-clock -F 99 --call-graph dwarf,2048
recording packed -z -e cpu-clock -F 99 -g
recording events -e '{cpu-clock,page-faults}:S' -c 100000 -g

# As the last target reads them: folded text, pprof, callgrind's output.
"$stackfold" -q "$scratch/fp" -o "$scratch/out.folded"
"$stackfold" -q "$scratch/fp" -o "$scratch/out.pb"
{ printf '\x01' && cat "$scratch/out.folded"; } >corpus/stacks/folded
{ printf '\x00' && cat "$scratch/out.pb"; } >corpus/stacks/pprof
valgrind -q --tool=callgrind --separate-callers=80 --callgrind-out-file="$scratch/out.counts" true
{ printf '\x80' && cat "$scratch/out.counts"; } >corpus/stacks/callgrind
find corpus -type f | wc -l
