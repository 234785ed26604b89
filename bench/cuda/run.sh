#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that waits for a GPU, in one call of at most eight minutes: builds tests/cuda and bench_cuda, runs the tests that
# carry the label gpu, compute-sanitizer over them where it is installed, the benchmark, and the same training steps in
# PyTorch where that is installed. Writes a report in Markdown.
#
#   usage: bench/cuda/run.sh [REPORT]      (build/gpu/report.md unless said otherwise)
#
# Each part has a time limit and none stops the others; what failed is named at the end, and the exit code is then 1. Without a
# device it stops at once with exit code 2. Where Catch2 is not installed, CMAKE_PREFIX_PATH may name a folder that has it.

set -u
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
folder=$root/build/gpu
report=${1:-$folder/report.md}
failed=()

if ! smi=$(nvidia-smi --query-gpu=name,driver_version,compute_cap,clocks.max.sm,power.limit --format=csv,noheader 2>&1); then
  complain "no usable CUDA device (nvidia-smi: ${smi##*: }); run this on a machine with an NVIDIA GPU and its driver"
  exit 2
fi
mkdir -p "$folder" "$(dirname "$report")"
arch=$(head -1 <<<"$smi" | cut -d, -f3 | tr -d ' .')

# limited SECONDS NAME COMMAND...: into the report, in a block; a failure or a time-out is remembered.
limited() {
  local limit=$1 name=$2 log=$folder/$2.log begin=$SECONDS status
  shift 2
  say "$name"
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] || failed+=("$name")
  { printf '\n## %s: %s, %d s\n\n```\n' "$name" "$([ $status -eq 0 ] && echo passed || echo "exit code $status")" $((SECONDS - begin))
    tail -n "${lines:-25}" "$log"
    printf '```\n'; } >>"$report"
  return $status
}

# compile WITH_TESTS TARGET...
compile() {
  local tests=$1
  shift
  use_ninja
  cmake -S "$root" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
    -DCMAKE_CUDA_FLAGS_RELEASE="-O2 -DNDEBUG -lineinfo" -DCMAKE_CUDA_ARCHITECTURES="$arch" -DCAUSEWAY_ENABLE_CUDA=ON \
    -DCAUSEWAY_BUILD_TESTS="$tests" -DCAUSEWAY_BUILD_BENCH=ON -DCAUSEWAY_BUILD_EXAMPLES=OFF -DCAUSEWAY_INSTALL=OFF \
    -DCAUSEWAY_WARNINGS_ARE_ERRORS=OFF && cmake --build "$folder" --parallel "$jobs" --target "$@"
}

{ echo "# GPU report"; echo; date -u '+%Y-%m-%d %H:%M UTC'; echo; echo "    bench/cuda/run.sh"; echo
  echo "Commit $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)$(git -C "$root" diff --quiet HEAD 2>/dev/null || echo ', changed since')."
  echo "$smi"; } >"$report"

export -f compile use_ninja
export root folder jobs arch
rm -f "$folder/bin/test_cuda" "$folder/bin/bench_cuda"
# The benchmark needs no test framework, so it is built where the tests cannot be.
limited 70 build-bench bash -c 'compile ON bench_cuda || compile OFF bench_cuda'
limited 110 build-tests bash -c 'compile ON test_cuda'
if [ -x "$folder/bin/test_cuda" ]; then
  lines=40 limited 40 tests "$folder/bin/test_cuda" "[gpu]" --use-colour no
  if grep -qE 'not compared|not run' "$folder/tests.log"; then failed+=("tests that found no device"); fi
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -n "$sanitizer" ]; then
    limited 40 memcheck "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 \
      "$folder/bin/test_cuda" "[gpu]" --use-colour no
    limited 30 racecheck "$sanitizer" --tool racecheck --error-exitcode 9 \
      "$folder/bin/test_cuda" "cuda attention*,cuda reductions: norms*,cuda codecs: bytes*" --use-colour no
  else
    printf '\ncompute-sanitizer is not installed; left out.\n' >>"$report"
  fi
else
  failed+=("tests that were not built")
fi
if [ -x "$folder/bin/bench_cuda" ]; then
  say bench
  timeout --kill-after=5 100 "$folder/bin/bench_cuda" >"$folder/bench.md" 2>"$folder/bench.err" || failed+=(bench)
  { echo; sed 's/^#/##/' "$folder/bench.md"; cat "$folder/bench.err"; } >>"$report"
  # The same steps in PyTorch, where it is installed; without torch.compile's minutes when they do not fit.
  lines=12 limited 60 torch python3 "$root/bench/cuda/torch_step.py"
  case $? in
    0) ;;
    2) unset 'failed[-1]' ;;
    *) lines=12 limited 25 torch-eager python3 "$root/bench/cuda/torch_step.py" --eager ;;
  esac
fi

[ ${#failed[@]} -eq 0 ] && verdict="Everything passed." || verdict="Failed: $(IFS=,; echo "${failed[*]}")."
printf '\n%s %d s in all.\n' "$verdict" "$SECONDS" >>"$report"
cat "$report"
[ ${#failed[@]} -eq 0 ]
