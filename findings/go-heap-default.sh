#!/bin/bash
# One would guess: a pprof file without default_sample_type is shown by its first value (Go's: alloc_objects).
# What happens: `go tool pprof` shows the last one. Go's `heap` and `allocs` profiles have the same four values of the same
# samples; `allocs` names a default (alloc_space), `heap` names none, and so means inuse_space.
# Why: profile.proto: "If unset, the last sample value will be used." runtime/pprof sets it for allocs only.
# Follows: a reader that takes the first value counts objects ever allocated where everybody else sees live bytes.
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

var kept [100000]*[40]uint64

func main() {
	for i := range kept {
		kept[i] = new([40]uint64)
	}
	runtime.GC()
	for _, name := range []string{"heap", "allocs"} {
		file, _ := os.Create(name + ".pb.gz")
		pprof.Lookup(name).WriteTo(file, 0)
		file.Close()
	}
	runtime.KeepAlive(&kept)
}
G
go version
go build -o program . && ./program
for name in heap allocs; do
    go tool pprof -raw $name.pb.gz 2>/dev/null | sed -n '/^Samples:/{n;p;}' | tee $name.values
    go tool pprof -top $name.pb.gz 2>/dev/null | sed -n 's/^Type: //p' >$name.shown
done
check "values of heap" "$(xargs <heap.values)" "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes"
check "shown of heap" "$(cat heap.shown)" "inuse_space"
check "values of allocs" "$(sed 's/\[dflt\]//' allocs.values | xargs)" "$(xargs <heap.values)"
check "shown of allocs" "$(cat allocs.shown)" "alloc_space"
