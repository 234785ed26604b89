#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building, testing and the quick start need and is not there yet. Safe to run again and again.
#
#   tools/setup.sh [build] [test] [quickstart] [package] [check] [docs]     default: build test quickstart
#   tools/setup.sh others       packages of PyPI that read our files, into build/others: without them their tests are left out
#
# Needs apt (Debian 12, Ubuntu 22.04 or later). On other systems it says what is needed and stops. The other scripts source
# this file and call `setup`.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The library itself needs a C++20 compiler and nothing else. These are for our own programs and tests.
packages_build="g++ cmake ninja-build ccache python3 libasio-dev nlohmann-json3-dev libdnnl-dev"
packages_test="catch2 libcereal-dev libopenblas-openmp-dev libtomlplusplus-dev pkg-config openmpi-bin libopenmpi-dev iproute2 dpkg-dev file groff-base"
packages_quickstart="libtomlplusplus-dev bible-kjv bible-kjv-text"
packages_package="libtomlplusplus-dev dpkg-dev file"
packages_check="clang-14 libclang-rt-14-dev clang-format-14 git"
packages_docs="mkdocs-material doxygen python3-yaml python3-jsonschema"
packages_others="python3-pip"

installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# Without apt we look for the programs and headers themselves, and only complain about what is really missing.
setup_without_apt() {
  local missing="" header
  command -v cmake >/dev/null || missing+=" cmake(3.25+)"
  command -v python3 >/dev/null || missing+=" python3"
  command -v c++ >/dev/null || command -v g++ >/dev/null || missing+=" g++(12+)"
  for header in asio.hpp nlohmann/json.hpp catch2/catch.hpp toml++/toml.h; do
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$header" | c++ -x c++ -fsyntax-only - 2>/dev/null ||
      missing+=" <$header>"
  done
  [ -z "$missing" ] && return 0
  complain "this system has no apt, so nothing was installed. Not found:$missing"
  cat >&2 <<TEXT
Please install them in this system's own way. By their names in Debian, what is used:
  to build:        $packages_build
  to test:         $packages_test
  quick start:     $packages_quickstart
The library itself is headers only: copy include/ or single_include/ and compile with -std=c++20 -pthread.
TEXT
  return 1
}

setup() {
  local group name missing=() as_root=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    setup_without_apt
    return
  fi
  for group in "${@:-build}"; do
    name=packages_$group
    if [ -z "${!name:-}" ]; then
      complain "setup knows build, test, quickstart, package, check and docs, not '$group'"
      return 2
    fi
    for name in ${!name}; do
      # Another flavour of OpenBLAS does as well, and a newer clang-format would format differently.
      [ "$name" = libopenblas-openmp-dev ] && installed libopenblas-pthread-dev && continue
      installed "$name" || missing+=("$name")
    done
  done
  [ ${#missing[@]} -eq 0 ] && return 0

  say "installing: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      complain "these packages are missing and you are not root; please run: apt-get install ${missing[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  # No recommended packages, no questions; standard input may be closed.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null >/dev/null ||
    echo "apt-get update failed; going on with the package lists at hand"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    </dev/null >/dev/null || {
    complain "apt-get could not install ${missing[*]}"
    return 1
  }
}

# The package gguf, llama.cpp ready built, and two programs that cut text into tokens: 180 MB, 15 s. Tests find them there
# (tests/program/support.py).
setup_others() {
  local name missing=""
  for name in gguf xllamacpp tokenizers tiktoken; do
    [ -d "$root/build/others/$name" ] || missing+=" $name"
  done
  [ -z "$missing" ] && return 0
  setup others || return
  say "installing from PyPI:$missing"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$root/build/others" $missing \
    </dev/null
}

if [ "${BASH_SOURCE[0]}" = "$0" ] && [ "$*" = others ]; then
  setup_others && echo "the tests that need others' programs will run"
elif [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup "${@:-build}" $([ $# -eq 0 ] && echo test quickstart) && echo "everything needed is installed"
fi
