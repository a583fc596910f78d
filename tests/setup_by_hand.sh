#!/usr/bin/env bash
# What the tests by hand need beside `make setup-dev`: RocksDB for Java and Spark, half a gigabyte for two tests.
set -euo pipefail
cd "$(dirname "$0")/.."

# As Maven Central has it: version and sha256.
VERSION="9.10.0"
SUM="d68a10df820c811020ca27a332718e823cf577086f2eda9512b5f8e77bd17525"

if ! command -v javac >/dev/null; then
  echo "setup: no javac; fix: sudo apt-get install default-jdk-headless" >&2
  exit 3
fi
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ioflame"
jar="$cache/rocksdbjni.jar"
if ! sha256sum --status -c - <<<"$SUM  $jar" 2>/dev/null; then
  echo "setup: fetching rocksdbjni $VERSION into $cache" >&2
  mkdir -p "$cache"
  trap 'rm -f "$jar.$$"' EXIT
  curl -fsSL -m 300 -o "$jar.$$" "https://repo1.maven.org/maven2/org/rocksdb/rocksdbjni/$VERSION/rocksdbjni-$VERSION.jar"
  sha256sum -c - <<<"$SUM  $jar.$$"
  mv "$jar.$$" "$jar"
fi
.venv/bin/python -m pip install -q --disable-pip-version-check -r requirements-spark.txt
