#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes every generated file anew: umbrella headers, single header, pages of settings, of rules and of presets, pictures.
#
#   tools/generate.sh      builds what it runs, in build/dev; then read the diff
set -euo pipefail
source "$(dirname "$0")/common.sh"

cd "$root"
python3 tools/check_tree.py --fix-umbrella
python3 tools/amalgamate.py --write
configure dev
build dev causeway test_comm test_presets
build/dev/bin/causeway config reference > docs/reference/settings.md
export CAUSEWAY_WRITE_MATRIX=1
cd build/dev  # where the tests' own paths begin
bin/test_comm "round rules: the matrix in the documentation is what the rules say"
bin/test_presets "compositions: the page says what the rules say"
cd "$root"
python3 tools/preset_pages.py
python3 tools/diagrams.py
