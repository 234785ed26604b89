#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the site of these pages into build/site, the reference of the headers with it.
#
#   tools/docs.sh              then open build/site/index.html, or: python3 -m http.server -d build/site
#
# Fails on a link that leads nowhere, a page that the navigation lacks, and a docstring that doxygen cannot read.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

setup docs
cd "$root"
made=$root/build/docs site=$root/build/site
say "pages"
python3 tools/diagrams.py --check
"$(sed -n '1s/^#! *//p' "$(command -v mkdocs)")" tools/site_pages.py "$made"  # the Python that has what mkdocs needs
mkdocs build --quiet --strict --clean -f "$made/mkdocs.yml"
say "reference"
rm -rf "$made/api"
doxygen docs/site/Doxyfile
cp -r "$made/api" "$site/api"
say "links"
python3 tools/check_docs.py --site "$site"
