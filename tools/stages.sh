# SPDX-License-Identifier: Apache-2.0
# What can be built and tested, as functions, and `stage` to run one and note its time. For tools/test.sh and .ci/run.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

stage_names=()
stage_seconds=()
stage_failed=()
test_log=$(mktemp)

# stage NAME FUNCTION [ARGUMENT...]: a failure is remembered and the other stages still run, so that one run shows all.
# Never call it in a condition: bash would then ignore `set -e` inside.
stage() {
  local name=$1 begin=$SECONDS status
  shift
  say "$name"
  set +e
  (set -e; "$@")
  status=$?
  stage_names+=("$name")
  stage_seconds+=($((SECONDS - begin)))
  [ $status -eq 0 ] || stage_failed+=("$name")
}

# Prints the times, then once more what CTest said at the end of the main tests; fails when a stage did.
finish() {
  local i total=0 summary
  say "time"
  for i in "${!stage_names[@]}"; do
    printf '%6d s  %s\n' "${stage_seconds[$i]}" "${stage_names[$i]}"
    total=$((total + stage_seconds[i]))
  done
  printf '%6d s  in all\n' "$total"
  [ ${#stage_failed[@]} -eq 0 ] || complain "failed: $(IFS=,; echo "${stage_failed[*]}")"
  summary=$(sed -n '/% tests passed/,$p' "$test_log")
  rm -f "$test_log"
  printf '\n%s\n' "${summary:-No tests were run.}"
  [ ${#stage_failed[@]} -eq 0 ]
}

tree() {
  python3 "$root/tools/check_tree.py" "$@"
  python3 "$root/tools/amalgamate.py" --check
  python3 "$root/tools/preset_pages.py" --check
  python3 "$root/tools/diagrams.py" --check
  python3 "$root/tools/check_docs.py"
}

# Its packages are large, so whoever has not got them goes without (tools/setup.sh docs).
site() {
  if ! command -v mkdocs >/dev/null || ! command -v doxygen >/dev/null; then
    echo "mkdocs-material or doxygen is not installed; left out"
    return 0
  fi
  bash "$root/tools/docs.sh"
}

# clang reads headers in three quarters of the time that g++ takes.
headers_alone() {
  python3 "$root/tools/headers_alone.py" --jobs "$jobs" --compiler "$(command -v clang++-14 || echo c++)"
}

# Without the folders of tests whose labels are given.
build_dev() {
  configure dev -DCAUSEWAY_TESTS_WITHOUT="$(IFS=';'; echo "$*")"
  build dev
}

# Labels of what takes long and finds little that the other tests have not found; of these the folders that are programs.
only_all='consumers|hunt|cost|every_call|single_include'
only_all_programs='hunt single_include'

# Three times as many at a time as cores: many tests are processes that wait for one another and for deadlines. What computes
# for minutes counts for two (PROCESSORS).
test_dev() {
  cd "$root"
  set -o pipefail
  ctest --preset dev --parallel $((3 * jobs)) "$@" 2>&1 | tee "$test_log"
}

# What indexes by hand, decodes, or owns memory; the layers above are the same code in other combinations.
# By clang where it and its sanitizers are installed: it compiles with them in half the time that g++ takes.
asan_folders="core tensor kernels net io data compress collective train"
asan() {
  local preset=asan
  if clang++-14 -fsanitize=address,undefined -x c++ -o /dev/null - <<<'int main() {}' 2>/dev/null; then preset=asan-clang; fi
  configure $preset
  build_existing $preset test_ $asan_folders
  (cd "$root" && ctest --preset $preset --parallel $((2 * jobs)) -L "^($(echo $asan_folders | tr ' ' '|'))\$" --label-exclude slow)
}

tsan_folders="core net train"
tsan() {
  configure tsan
  build_existing tsan test_ $tsan_folders
  (cd "$root" && ctest --preset tsan --parallel "$jobs")
}

clang_folders="static policy comm parallel fault membership sim"  # asan has compress
clang() {
  if ! command -v clang++-14 >/dev/null; then
    echo "clang++-14 is not installed; left out"
    return 0
  fi
  configure clang
  build_existing clang test_ $clang_folders
  # Not optimised, so the slow ones and those of peers lost from what takes local steps would take minutes; they have run as
  # g++ compiled them.
  (cd "$root" && ctest --preset clang --parallel "$jobs" -L "^($(echo $clang_folders compile_fail | tr ' ' '|'))\$" \
    --label-exclude slow --exclude-regex '^parallel\.(elastic|local_swarm)$')
}

single_folders="odr tensor policy fault"  # `dev` has single_include
single() {
  configure single
  build_existing single test_ $single_folders
  (cd "$root" && ctest --preset single --parallel "$jobs" -L "^($(echo $single_folders | tr ' ' '|'))\$")
}

# That benchmarks follow the library; CUDA's are built with its tests. None is linked or run: that takes a quiet machine.
# CAUSEWAY_COMPILED leaves out the library's bodies, which headers_alone has read.
benchmarks() {
  local mpi without=()
  mpi=$(pkg-config --cflags ompi 2>/dev/null) || without=(! -name 'mpi_*')
  (cd "$root" && find bench -name '*.cpp' ! -path 'bench/cuda/*' "${without[@]}" -print0 |
    xargs -0 -n 1 -P "$jobs" c++ -std=c++20 -DCAUSEWAY_COMPILED -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
      -Iinclude -Ibench -Itests $mpi)
}

cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "nvcc is not installed; left out"
    return 0
  fi
  configure cuda-compile
  build cuda-compile test_cuda bench_cuda example_train_on_gpu
  (cd "$root" && ctest --preset cuda-compile)
}

# The C++ of the pages that is no part of a file.
page_code() {
  python3 "$root/tools/check_docs.py" --compile "$(command -v clang++-14 || echo c++)"
}

# build_existing PRESET PREFIX FOLDER...: the targets of those folders that have one.
build_existing() {
  local preset=$1 prefix=$2 folder targets=()
  shift 2
  for folder in "$@"; do
    if [ -d "$root/tests/$folder" ]; then targets+=("$prefix$folder"); fi
  done
  build "$preset" "${targets[@]}"
}
