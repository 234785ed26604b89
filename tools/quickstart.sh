#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a trained model in a few minutes: installs what is missing, builds the program `causeway`, and trains a small
# GPT on the King James Bible with four peers that talk over TCP on this machine.
#
#   tools/quickstart.sh [--peers N] [any other setting of `causeway train`]
#
# Safe to run again: what is there is used, and an interrupted run goes on from its last checkpoint.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

text=$root/data/kjv.txt

# 4.3 MB of public domain English, packed inside Debian's program that prints it.
extract_text() {
  [ -s "$text" ] && return 0
  mkdir -p "$(dirname "$text")"
  if ! command -v bible >/dev/null; then
    complain "no text to train on: put any large plain text at $text (1 MB or more) and run this again"
    return 1
  fi
  say "extracting the King James Bible to ${text#"$root"/}"
  bible gen1:1-rev22:21 </dev/null >"$text.part"
  mv "$text.part" "$text"
}

setup build quickstart
extract_text

say "building"
configure release -DCAUSEWAY_BUILD_TESTS=OFF -DCAUSEWAY_BUILD_BENCH=OFF
build release causeway_program

case " $* " in *" --peers"*) peers=() ;; *) peers=(--peers 4) ;; esac
say "training: build/release/bin/causeway train @examples/quickstart.toml ${peers[*]} $*"
cd "$root"
build/release/bin/causeway train @examples/quickstart.toml "${peers[@]}" "$@"

cat <<TEXT

The run is in runs/quickstart: loss.svg shows the loss, sample.txt a sample, metrics.jsonl every figure, peer-*/ the checkpoints.
Next: build/release/bin/causeway generate @examples/quickstart.toml    writes more text
      build/release/bin/causeway help                                  what else it can do
TEXT
