# shellcheck shell=bash disable=SC2154 # $manager is of setup.sh, which reads this file
# What Debian calls them, by Fedora's and openSUSE's names; written from their lists of packages, and not tried there.
elsewhere() { # elsewhere PACKAGE...
  local package
  for package in "$@"; do
    case "$manager $package" in
      *' linux-perf') package=perf ;;
      *' python3-venv') package=python3 ;;
      'dnf libelf-dev') package=elfutils-libelf-devel ;;
      'dnf pkg-config') package=pkgconf-pkg-config ;;
      *' zlib1g-dev') package=zlib-devel ;;
      *' libelf-dev') package=libelf-devel ;;
      *' libleveldb-dev') package=leveldb-devel ;;
      *' libsnappy-dev') package=snappy-devel ;;
      *' liblmdb-dev') package=lmdb-devel ;;
      'dnf libjemalloc2') package=jemalloc ;;
      # db_bench is in no package of theirs.
      *' rocksdb-tools') package= ;;
    esac
    printf '%s' "${package:+ $package}"
  done
}
by_hand() { # by_hand PACKAGE...
  case $manager in
    apt-get) printf 'sudo apt-get update && sudo apt-get install -y --no-install-recommends %s' "$*" ;;
    '') printf 'install these with your package manager (the names are those of Debian): %s' "$*" ;;
    *)
      printf 'sudo %s install%s' "$manager" "$(elsewhere "$@")"
      [[ " $* " != *' rocksdb-tools '* ]] || printf ', and build db_bench: DB_BENCH=<path of it>'
      ;;
  esac
}
