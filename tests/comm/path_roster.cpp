// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/path_roster.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

using causeway::comm::detail::path_roster;
using ids = std::vector<std::uint64_t>;
using paths = std::vector<std::uint32_t>;

namespace {

constexpr auto none = path_roster::none;

/// Where its memory lies, and what is there.
struct image {
  std::vector<const void*> at;
  std::vector<std::byte> bytes;

  explicit image(path_roster& r) { r.serialize(*this); }
  template <class... Ts>
  void operator()(const Ts&... values) {
    (add(std::as_bytes(std::span{values})), ...);
  }
  void add(std::span<const std::byte> part) {
    at.push_back(part.data());
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
};

}  // namespace

TEST_CASE("path roster: newcomers get the path that the fewest have, in their order", "[comm][fast]") {
  path_roster r;
  CHECK(r.path_of(7, 3) == none);
  r.admit({9, 3, 7, 5}, 3);
  CHECK(r.paths_of({9, 3, 7, 5, 4}, 3) == paths{0, 1, 2, 0, none});
  r.admit({9, 3, 7, 5, 4, 2}, 3);
  CHECK(r.paths_of({9, 3, 7, 5, 4, 2}, 3) == paths{0, 1, 2, 0, 1, 2});
}

TEST_CASE("path roster: the path of those who are gone is the next one's, and they keep theirs", "[comm][fast]") {
  path_roster r;
  r.admit({1, 2, 3}, 3);
  r.admit({1, 3, 4}, 3);  // without 2
  CHECK(r.paths_of({1, 2, 3, 4}, 3) == paths{0, 1, 2, 1});
  r.admit({1, 2, 3, 4, 5}, 3);  // 2 is back
  CHECK(r.paths_of({1, 2, 3, 4, 5}, 3) == paths{0, 1, 2, 1, 0});
  r.admit({5}, 3);
  r.admit({5, 6, 7}, 3);
  CHECK(r.paths_of({5, 6, 7}, 3) == paths{0, 1, 2});
  CHECK(r.paths_of({5, 6, 7}, 2) == paths{0, 1, none});  // of a run with fewer paths
}

TEST_CASE("path roster: its memory stays where it is, and is alike where the same happened", "[comm][fast]") {
  path_roster a, b;
  const image empty{a};
  a.admit({1, 2}, 2);
  b.admit({1, 2}, 2);
  CHECK(image{a}.at == empty.at);
  CHECK(image{a}.bytes == image{b}.bytes);
  CHECK(image{a}.bytes.size() == empty.bytes.size());
  CHECK(image{a}.bytes != empty.bytes);
}

TEST_CASE("path roster: of too many those who were away longest are forgotten", "[comm][fast]") {
  path_roster r;
  r.admit({1, 2}, 2);
  r.admit({2}, 2);
  ids many(path_roster::most - 1);
  std::iota(many.begin(), many.end(), 100U);
  r.admit(many, 2);
  CHECK(r.path_of(2, 2) == 1);
  CHECK(r.path_of(1, 2) == none);
  CHECK(r.path_of(many.back(), 2) != none);
}
