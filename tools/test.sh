#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds and runs the tests.
#
#   tools/test.sh                 build `dev` and run its tests: a quarter of an hour on two cores, from nothing
#   tools/test.sh --quick         the same without the tests marked slow
#   tools/test.sh --sanitizers    also under address + undefined-behaviour and thread sanitizers
#   tools/test.sh --all           also projects that use the library, the hunt for seeds, peers lost at every single network call,
#                                 the cost of compiling, each header alone, clang, the single header, the site of the pages,
#                                 benchmarks (compiled) and, where nvcc is installed, CUDA
set -uo pipefail
source "$(dirname "$0")/setup.sh"
source "$(dirname "$0")/stages.sh"

want=dev
for option in "$@"; do
  case $option in
    --quick) want=quick ;;
    --sanitizers) want=sanitizers ;;
    --all) want=all ;;
    *) sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

setup build test || exit
if [ "$want" = quick ]; then
  stage "build" build_dev $only_all_programs
  stage "tests" test_dev --label-exclude "slow|$only_all"
else
  if [ "$want" = all ]; then
    setup check docs || exit
    setup_others || echo "going on without them: tests that read our files with others' programs are left out"
    stage "source tree, single header, format, pages" tree --format
    stage "site" site
    stage "headers alone" headers_alone
  fi
  if [ "$want" = sanitizers ] || [ "$want" = all ]; then
    stage "address and undefined-behaviour sanitizers" asan
    stage "thread sanitizer" tsan
  fi
  if [ "$want" = all ]; then
    stage "clang" clang
    stage "single header" single
    stage "CUDA" cuda
    stage "benchmarks" benchmarks
    stage "C++ of the pages" page_code
  fi
  if [ "$want" = all ]; then
    stage "build" build_dev
    stage "tests" test_dev
  else
    stage "build" build_dev $only_all_programs
    stage "tests" test_dev --label-exclude "$only_all"
  fi
fi
finish
