# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here: where we are, what to print, how many jobs fit.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The compiler cache knows a file again in another checkout.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

say() { printf '\n== %s\n' "$*"; }
complain() { printf 'error: %s\n' "$*" >&2; }

# One job per core, but no more than memory allows: a batch of test files can take 4 GB to compile.
jobs_that_fit() {
  local cores memory
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  memory=$(awk '/^MemAvailable/ { print int($2 / 4000000) }' /proc/meminfo 2>/dev/null)
  memory=${memory:-$cores}
  [ "$memory" -lt 1 ] && memory=1
  [ "$memory" -lt "$cores" ] && cores=$memory
  echo "$cores"
}
jobs=${CAUSEWAY_JOBS:-$(jobs_that_fit)}

# Ninja where it is installed, else what CMake picks.
use_ninja() {
  if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null 2>&1; then
    export CMAKE_GENERATOR=Ninja
  fi
}

# configure PRESET [CMAKE OPTION...]: prints what CMake says only when it fails or leaves something out.
configure() {
  local preset=$1 log
  shift
  use_ninja
  log=$(mktemp)
  if (cd "$root" && cmake --preset "$preset" "$@") >"$log" 2>&1; then
    grep -E 'left out|[Ww]arning' "$log" || true
    rm -f "$log"
  else
    cat "$log"
    rm -f "$log"
    return 1
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  (cd "$root" && cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"})
}
