// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/counted_steps.hpp>

#include <causeway/collective/channels.hpp>
#include <causeway/net/memory_transport.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

constexpr std::uint32_t peers = 3;

/// Those who count, one after the other.
struct counting_peers {
  net::memory_network network{peers};
  std::vector<net::any_transport> lines{};
  std::array<parallel::counted_steps, peers> all{};

  counting_peers() {
    for (net::peer_index p = 0; p < peers; ++p) lines.emplace_back(network.transport(p));
    begin(1);
  }
  void begin(std::uint64_t attempt) {
    for (net::peer_index p = 0; p < peers; ++p) {
      std::vector<net::peer_index> others;
      for (net::peer_index o = 0; o < peers; ++o) {
        if (o != p) others.push_back(o);
      }
      all[p].begin(lines[p], {.channel = collective::channels::state, .step = attempt}, others);
    }
  }
};

}  // namespace

TEST_CASE("counted steps: those of all are added up, of each the last word", "[parallel][fast]") {
  counting_peers w;
  CHECK_FALSE(w.all[0].reach(1, 12));
  CHECK_FALSE(w.all[1].reach(2, 12));
  CHECK_FALSE(w.all[2].reach(4, 12));
  CHECK_FALSE(w.all[0].reach(4, 12));
  CHECK(w.all[1].reach(4, 12));
  CHECK(w.all[2].reach(4, 12));  // who reaches it says so
  CHECK(w.all[0].reach(4, 12));
  CHECK(w.all[1].reach(9, 12));  // and nothing more
  CHECK_FALSE(w.all[2].reach(4, 13));
}

TEST_CASE("counted steps: another attempt begins without what was heard in the one before", "[parallel][fast]") {
  counting_peers w;
  CHECK_FALSE(w.all[0].reach(5, 6));
  CHECK(w.all[1].reach(1, 6));
  w.begin(2);
  CHECK_FALSE(w.all[1].reach(1, 6));
  CHECK_FALSE(w.all[2].reach(1, 6));
  CHECK(w.all[0].reach(5, 6));
}

TEST_CASE("counted steps: who counts alone needs nobody, and a lost peer's steps count no more", "[parallel][fast]") {
  net::memory_network one{1};
  net::any_transport line{one.transport(0)};
  parallel::counted_steps alone;
  alone.begin(line, {.channel = collective::channels::state, .step = 1}, {});
  CHECK_FALSE(alone.reach(2, 3));
  CHECK(alone.reach(3, 3));

  counting_peers w;
  CHECK_FALSE(w.all[1].reach(2, 9));
  w.network.kill(2);
  CHECK_FALSE(w.all[0].reach(3, 9));
  CHECK_FALSE(w.all[0].reach(4, 9));
  CHECK(w.all[0].reach(7, 9));
}
