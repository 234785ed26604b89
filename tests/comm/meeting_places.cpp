// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/meeting_places.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

/// An exchange of four peers.
struct exchange {
  struct entered {
    std::vector<std::uint32_t> replicas{};
  };
  entered at{};
  net::peer_index number = 2;

  [[nodiscard]] const entered& entry() const { return at; }
  [[nodiscard]] net::peer_index self() const { return number; }
  [[nodiscard]] std::uint32_t peers() const { return 4; }
  [[nodiscard]] double share_of(net::peer_index p) const { return p < 2 ? 0.75 : 0.25; }
};

}  // namespace

TEST_CASE("meeting places: each peer is one, or each replica of those who hold single blocks", "[comm][fast]") {
  exchange all;
  const comm::detail::meeting_places peers{all};
  CHECK(peers.self() == 2);
  CHECK(peers.count() == 4);
  CHECK(peers.share_of(1) == 0.75);
  all.at.replicas = {0, 0, 1, 1};
  const comm::detail::meeting_places replicas{all};
  CHECK(replicas.self() == 1);
  CHECK(replicas.count() == 2);
  CHECK(replicas.share_of(0) == 0.75);
  CHECK(replicas.share_of(1) == 0.25);
}
