#!/bin/bash
# One would guess: `fio --output-format=json >FILE` and `--output=FILE` leave the same JSON.
# What happens: on standard output notes stand before it; psync with iodepth=4 is enough for one. --output=FILE has JSON alone.
# Why: notes and results share standard output by default.
# Follows: use --output=FILE, or read from the first line that is `{`. The exit code does not tell; it is 0.
# Seen with: fio 3.33 (Debian 12). Needs fio, python3, 1 MB.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need fio "apt install fio"; need python3 "apt install python3"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

fio --version
run() { fio --name=read --filename=data --size=1m --rw=randread --ioengine=psync --iodepth=4 --output-format=json "$@"; }
read_json() { python3 -m json.tool >/dev/null 2>&1 && echo read || echo refused; }
run >out.json
run --output=file.json
check "first line of standard output" "$(head -n 1 out.json | cut -d, -f1)" \
    "note: both iodepth >= 1 and synchronous I/O engine are selected"
check "standard output as JSON" "$(read_json <out.json)" "refused"
check "standard output from {" "$(sed -n '/^{/,$p' out.json | read_json)" "read"
check "--output=FILE as JSON" "$(read_json <file.json)" "read"
