// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/shared_parts.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/nesterov.hpp>

#include <cstdint>
#include <cstring>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct inner_part {
  std::uint32_t count = 7;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(count);
  }
};

}  // namespace

TEST_CASE("shared parts: name the memory itself, in the order of serialize", "[train][fast]") {
  std::vector<float> values{1, 2, 3};
  inner_part nested;
  detail::shared_parts parts;
  parts(values, nested);
  const auto found = parts.take();
  REQUIRE(found.size() == 2);
  CHECK(found[0].data() == reinterpret_cast<std::byte*>(values.data()));
  CHECK(found[0].size() == 12);
  const std::uint32_t other = 9;
  std::memcpy(found[1].data(), &other, sizeof other);
  CHECK(nested.count == 9);
}

TEST_CASE("shared parts: an optimizer's moments are not copied", "[train][fast]") {
  optim::nesterov outer;
  outer.reset(1000);
  optim::adamw inner;
  inner.reset(1000);
  detail::shared_parts parts;
  parts(outer, inner);
  std::size_t bytes = 0;
  for (const auto& part : parts.take()) bytes += part.size();
  CHECK(bytes >= 3 * 4000);
  CHECK(bytes < 3 * 4000 + 64);
}
