#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a trained model in a few minutes: installs what is missing, builds the program `causeway`, and trains a small
# Llama on the King James Bible with four peers that talk over TCP on this machine. It prints where a browser sees the run.
#
#   tools/quickstart.sh [--peers N] [any other setting of `causeway train`]
#
# Safe to run again: what is there is used, and an interrupted run goes on from its last checkpoint.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

printed=$root/data/kjv.txt
text=$root/data/verses.txt

# 4.3 MB of public domain English, packed inside Debian's program that prints it: as it is printed (benchmarks use that), and
# without numbers, headings and line breaks, a verse in each line, so that what a model learns from it reads like text.
extract_text() {
  [ -s "$text" ] && return 0
  mkdir -p "$(dirname "$text")"
  if [ ! -s "$printed" ]; then
    if ! command -v bible >/dev/null; then
      complain "no text to train on: put any large plain text at $text (1 MB or more) and run this again"
      return 1
    fi
    say "extracting the King James Bible to ${text#"$root"/}"
    bible gen1:1-rev22:21 </dev/null >"$printed.part"
    mv "$printed.part" "$printed"
  fi
  awk '
    /^  +[0-9]+ / { if (verse != "") print verse; sub(/^ +[0-9]+ +/, ""); verse = $0; next }
    /^[^ ]/ && verse != "" && !/^[1-3A-Z][A-Za-z0-9 ]* [0-9]+$/ { verse = verse " " $0; next }
    { if (verse != "") { print verse; print "" }; verse = "" }
    END { if (verse != "") print verse }' "$printed" >"$text.part"
  mv "$text.part" "$text"
}

setup build quickstart
extract_text

say "building"
configure release -DCAUSEWAY_BUILD_TESTS=OFF -DCAUSEWAY_BUILD_BENCH=OFF -DCAUSEWAY_PROGRAM_MPI=ON
build release causeway_program

case " $* " in *" --peers"*) peers=() ;; *) peers=(--peers 4) ;; esac
say "training: build/release/bin/causeway train @examples/quickstart.toml ${peers[*]} $*"
cd "$root"
build/release/bin/causeway train @examples/quickstart.toml "${peers[@]}" "$@"

address=$(hostname -I 2>/dev/null | cut -d ' ' -f 1)
cat <<TEXT

The run is in runs/quickstart: report.html shows how it went, sample.txt a sample; peer-*/ has every figure and the checkpoints.
More text:      build/release/bin/causeway generate @examples/quickstart.toml
What else:      build/release/bin/causeway help
Two machines:   build/release/bin/causeway train @examples/quickstart.toml --name two --peers 2 --listen 0.0.0.0:29500
  on the other: causeway join ${address:-ADDRESS}:29500     (it needs the package of tools/package.sh, and no text)
TEXT
