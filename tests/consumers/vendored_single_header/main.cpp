// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

std::uint64_t draw_elsewhere();

int main() {
  const auto there = causeway::net::parse_endpoint("[::1]:80");
  return causeway::rng{3}.next() == draw_elsewhere() && there && there->port == 80 ? 0 : 1;
}
