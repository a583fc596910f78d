#!/bin/bash
# In the guest: one window after the other, as windows.sh lists them. Each leaves NAME.json, NAME.err and NAME.code in /out.
cd /out || exit 1
# shellcheck disable=SC2034 # in windows.sh
device=$(mountpoint -d /db)
# In the commands of loads.
export rocks="--db=/db/rocks --use_existing_db --num=200000 --value_size=400 --compression_type=none --duration=9000"
pid=

# load NAME BYTES COMMAND: in the background, until it has read and written so much
load() {
	local name=$1 bytes=$2 moved=0 key value
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null
	bash -c "$3" >"load.$name" 2>&1 &
	pid=$!
	while [ "$moved" -lt "$bytes" ]; do
		sleep 0.2
		moved=0
		while read -r key value; do
			case $key in read_bytes: | write_bytes:) moved=$((moved + value)) ;; esac
		done <"/proc/$pid/io" || break
	done
	echo "guest: $name"
}

# window NAME SECONDS WORD...: by the loader, which cannot hold us up for ever
window() {
	local name=$1 seconds=$2
	shift 2
	timeout -k 5 $((seconds + 150)) /job/ioflame-ebpf "$@" --pid "$pid" --seconds "$seconds" --output "$name.json" \
		>"$name.out" 2>"$name.err"
	local code=$?
	echo "$code" >"$name.code"
	sync
	echo "guest: $name, exit code $code"
}

uname -r >kernel
# shellcheck source=/dev/null
. /job/windows.sh
[ -z "$pid" ] || kill "$pid"
