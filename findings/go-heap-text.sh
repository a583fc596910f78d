#!/bin/bash
# One would guess: Go's heap profile as text (debug=1) and as pprof (debug=0) say the same bytes.
# What happens: the text has the bytes of the sampled objects alone; of 64 MB in objects of 32 bytes it shows some KB.
# Its header's `heap/1048576` is the correction's parameter, and that is twice the sampling rate of 524,288.
# Why: runtime/pprof scales by 1/(1-exp(-size/rate)) when it writes pprof; the text is left to the reader (gperftools' format).
# Follows: scale the text by object size, with half of the number in its header, or read pprof. Small objects lose most.
# Seen with: Go 1.26.8. Needs go (Go 1.19 or newer).
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need go "apt install golang-go"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >go.mod <<'G'
module heap

go 1.19
G
cat >main.go <<'G'
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [2000000]*[4]uint64

func main() {
	for i := range kept {
		kept[i] = new([4]uint64)
	}
	runtime.GC()
	for debug, name := range []string{"heap.pb.gz", "heap.txt"} {
		file, _ := os.Create(name)
		pprof.Lookup("heap").WriteTo(file, debug)
		file.Close()
	}
	runtime.KeepAlive(&kept)
}
G
go version
go build -o heap . && ./heap
head -n 1 heap.txt
text=$(awk 'NR == 1 { print $4 }' heap.txt)
pprof=$(go tool pprof -top -unit=b heap heap.pb.gz 2>/dev/null | sed -n 's/.* of \([0-9]*\)B total.*/\1/p')
echo "bytes in use: 64000000; text $text, pprof $pprof"
check "pprof is within 30 % of the truth" "$((pprof > 45000000 && pprof < 83000000))" 1
check "text is below a hundredth of it" "$((text * 100 < pprof))" 1
check "parameter in the header" "$(sed -n '1s/.*@ //p' heap.txt)" "heap/1048576"
