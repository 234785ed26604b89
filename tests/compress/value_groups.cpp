// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/value_groups.hpp>

#include <cstring>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::compress;

namespace {

/// A row of 100 values in two tensors, 4 and 3 groups, with padding between.
struct job {
  thread_pool pool{1};
  std::vector<matrix_range> tensors{{.offset = 0, .rows = 5, .columns = 10}, {.offset = 64, .rows = 1, .columns = 36}};
  std::vector<std::uint32_t> chosen{1, 3, 6};
  std::vector<float> row = std::vector<float>(100);

  job() {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i) + 1;
  }
  group_context context() { return {{.pool = pool, .matrices = tensors}, chosen, 4}; }
  std::vector<std::byte> message() {
    std::vector<std::byte> room(value_groups{}.most_bytes(context(), row.size()));
    room.resize(value_groups{}.encode(context(), row, room));
    return room;
  }
};

}  // namespace

TEST_CASE("value groups: what was chosen arrives, weighted, and is counted", "[compress][fast]") {
  job j;
  const auto bytes = j.message();
  CHECK(bytes.size() == 4 + 1 + (16 + 2 + 4) * 4);  // a mask of 7 groups; the last groups of both tensors are short
  std::vector<float> sum(100, 1.0F), counts(100);
  REQUIRE(value_groups{}.decode_add(j.context(), bytes, sum, 0.5F, counts));
  for (std::size_t i = 0; i < 100; ++i) {
    const bool came = (i >= 16 && i < 32) || (i >= 48 && i < 50) || i >= 96;
    CHECK(sum[i] == (came ? 1 + 0.5F * j.row[i] : 1.0F));
    CHECK(counts[i] == (came ? 0.5F : 0.0F));
  }
}

TEST_CASE("value groups: nothing chosen is a short message, all is a long one", "[compress][fast]") {
  job j;
  j.chosen.clear();
  CHECK(j.message().size() == 4);
  j.chosen = {0, 1, 2, 3, 4, 5, 6};
  group_context all = j.context();
  all.most = 9;  // than there are
  CHECK(value_groups{}.most_bytes(all, 100) == 4 + 1 + 7 * 64);
}

TEST_CASE("value groups: bytes that no encoder makes are refused, and nothing is added", "[compress][fast]") {
  job j;
  const auto good = j.message();
  std::vector<float> sum(100);
  const auto code = [&](const std::vector<std::byte>& bytes) {
    const auto added = value_groups{}.decode_add(j.context(), bytes, sum, 1.0F, {});
    REQUIRE(!added);
    CHECK(sum == std::vector<float>(100));
    return added.error().code;
  };
  for (std::size_t n = 0; n < good.size(); ++n) {
    CHECK(code({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}) == errc::protocol);
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(code(longer) == errc::protocol);
  auto too_many = good;
  too_many[0] = std::byte{8};  // of 7 groups
  CHECK(code(too_many) == errc::corrupt);
  auto not_finite = good;
  const float x = std::numeric_limits<float>::infinity();
  std::memcpy(not_finite.data() + not_finite.size() - sizeof x, &x, sizeof x);
  CHECK(code(not_finite) == errc::non_finite);
}
