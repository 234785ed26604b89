#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages `causeway` (the program) and `libcauseway-dev` (the headers) into build/packages.
#
#   tools/package.sh              then: apt-get install ./build/packages/causeway_*.deb
#
# As an image for containers: tools/Containerfile.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

setup build package
say "building"
configure release -DCAUSEWAY_BUILD_TESTS=OFF -DCAUSEWAY_BUILD_BENCH=OFF -DCAUSEWAY_PROGRAM_MPI=OFF
build release causeway_program
say "packing"
mkdir -p "$root/build/packages"
(cd "$root/build/release" && cpack -G DEB -B "$root/build/packages")
rm -rf "$root/build/packages/_CPack_Packages"
