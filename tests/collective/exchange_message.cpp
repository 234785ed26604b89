// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/exchange_message.hpp>

#include <causeway/core/rng.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::collective;
using collective::detail::read_message;
using collective::detail::write_header;

TEST_CASE("exchange message: what was written is read", "[collective][fast]") {
  std::vector<std::byte> bytes(20);
  write_header(bytes, 2.5F, 7);
  const peer_message m = read_message(3, bytes, 7, 4);
  CHECK_FALSE(m.bad);
  CHECK(m.peer == 3);
  CHECK(m.weight == 2.5F);
  CHECK(m.bytes.data() == bytes.data() + 16);
  CHECK(m.bytes.size() == 4);
  CHECK(read_message(3, bytes, 8, 4).bad->code == errc::protocol);

  write_header(bytes, 0, 7, refusal{2, errc::corrupt});
  const peer_message refused = read_message(3, bytes, 7, 4);
  REQUIRE(refused.bad);
  CHECK(refused.bad->peer == 2);
  CHECK(refused.bad->code == errc::corrupt);
  CHECK(read_message(3, bytes, 7, 1).bad->peer == 3);  // there is no peer 2: the sender is to blame
}

TEST_CASE("exchange message: the own header says whether content follows", "[collective][fast]") {
  std::vector<std::byte> bytes(16);
  exchange_row row;
  CHECK(collective::detail::write_own_header(bytes, row, 3, 1));
  CHECK(read_message(1, bytes, 3, 2).weight == 1);
  row.weight = 0;
  CHECK_FALSE(collective::detail::write_own_header(bytes, row, 3, 1));
  CHECK_FALSE(read_message(1, bytes, 3, 2).bad);
  row = {.values = {}, .weight = 4, .refused = errc::non_finite};
  CHECK_FALSE(collective::detail::write_own_header(bytes, row, 3, 1));
  CHECK(read_message(1, bytes, 3, 2).bad->peer == 1);
  CHECK(read_message(1, bytes, 3, 2).bad->code == errc::non_finite);
}

TEST_CASE("exchange message: any bytes give a message that can be used, or one that is refused", "[collective][fast]") {
  rng draw{1};
  int used = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> bytes(draw.below(24));
    write_header(bytes.size() < 16 ? std::span<std::byte>{bytes = std::vector<std::byte>(16)} : std::span{bytes}, 1, 5);
    for (int change = 0; change < 2; ++change) bytes[draw.below(bytes.size())] = static_cast<std::byte>(draw.below(256));
    const peer_message m = read_message(1, bytes, 5, 3);
    if (m.bad) {
      CHECK(m.bad->peer <= 3);
      continue;
    }
    ++used;
    CHECK((std::isfinite(m.weight) && m.weight >= 0 && m.bytes.size() + 16 == bytes.size()));
    CHECK((m.weight > 0 || m.bytes.empty()));
  }
  CHECK(used > 1000);
  CHECK(read_message(1, {}, 5, 3).bad->code == errc::protocol);
}

TEST_CASE("exchange message: weights that cannot be divided by give no factor", "[collective][fast]") {
  CHECK(collective::detail::mean_factor(4) == 0.25F);
  CHECK(collective::detail::mean_factor(0) == 0.0F);
  CHECK(collective::detail::mean_factor(1e-45) == 0.0F);
  CHECK(collective::detail::mean_factor(-1) == 0.0F);
  CHECK(collective::detail::mean_factor(std::nan("")) == 0.0F);
  CHECK(collective::detail::mean_factor(std::numeric_limits<double>::infinity()) == 0.0F);
}
