// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/transport_site.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <numeric>
#include <vector>

using namespace causeway;
using namespace causeway::collective;

namespace {

/// `f(site, peer)` on six peers, of which 5, 1 and 3 are one site and the others another.
template <class F>
std::vector<result<void>> in_two_sites(const net::memory_network& network, const F& f) {
  return peer_threads::run(network, [&](net::memory_transport& end) {
    const net::peer_index self = end.self();
    net::any_transport over{std::move(end)};
    collective_options options;
    options.deadline = peer_threads::soon();
    const std::vector<net::peer_index> odd{5, 1, 3}, even{0, 2, 4};
    transport_site here{over, self % 2 == 1 ? odd : even, peer_threads::some_id, options};
    return f(static_cast<site&>(here), self);
  });
}

}  // namespace

TEST_CASE("transport site: ranks, means, broadcasts and words stay within the site", "[collective][fast]") {
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{1000}, std::size_t{50'000});
  net::memory_network network{6};
  std::vector<std::vector<float>> means(6), sent(6);
  std::vector<bool> agreed(6);
  const auto done = in_two_sites(network, [&](site& s, net::peer_index self) -> result<void> {
    means[self].assign(count, static_cast<float>(self * self));
    sent[self].assign(count, static_cast<float>(self));
    if (s.size() != 3) return fail(errc::invalid_argument, "size", "");
    if (self % 2 == 1 && s.rank() != (self == 5 ? 0 : self == 1 ? 1 : 2)) return fail(errc::invalid_argument, "rank", "");
    CAUSEWAY_TRY(s.mean(means[self]));
    CAUSEWAY_TRY(s.broadcast(2, sent[self]));
    CAUSEWAY_ASSIGN(const bool all, s.all_of(self != 4));
    agreed[self] = all;
    return {};
  });
  REQUIRE(peer_threads::all_succeeded(done));
  for (net::peer_index p = 0; p < 6; ++p) {
    const bool odd = p % 2 == 1;
    const float mean = (odd ? 35.0F : 20.0F) * (1.0F / 3);
    CHECK(means[p] == std::vector<float>(count, mean));
    CHECK(sent[p] == std::vector<float>(count, odd ? 3.0F : 4.0F));
    CHECK(agreed[p] == odd);
  }
}

TEST_CASE("transport site: a peer that is lost at any operation is an error for its site and not for the other",
          "[collective][fast]") {
  for (std::uint64_t n = 0;; ++n) {
    net::memory_network network{6};
    network.kill_at(3, n);
    const auto done = in_two_sites(network, [&](site& s, net::peer_index) -> result<void> {
      std::vector<float> values(100, 1.0F);
      CAUSEWAY_TRY(s.mean(values));
      CAUSEWAY_TRY(s.broadcast(1, values));
      CAUSEWAY_ASSIGN(const bool all, s.all_of(true));
      return all ? result<void>{} : fail(errc::diverged, "all_of", "");
    });
    for (const net::peer_index p : {0U, 2U, 4U}) REQUIRE(done[p]);
    if (done[3]) {
      REQUIRE(n > 5);
      break;
    }
  }
}

TEST_CASE("transport site: a word that is neither yes nor no is refused", "[collective][fast]") {
  net::memory_network network{2};
  const auto done = peer_threads::run(network, [&](net::memory_transport& end) -> result<void> {
    collective_options options;
    options.deadline = peer_threads::soon();
    if (end.self() == 1) {  // speaks the protocol of all_of by hand
      std::vector<std::byte> both(2);
      const std::byte odd{7};
      net::message_id id = peer_threads::some_id;
      id.channel += 8;
      return all_gather(end, id, std::span{&odd, 1}, std::span{both}, options);
    }
    net::any_transport over{std::move(end)};
    transport_site here{over, {0, 1}, peer_threads::some_id, options};
    const auto all = here.all_of(true);
    if (all) return fail(errc::diverged, "all_of", "took it");
    return all.error().code == errc::corrupt ? result<void>{} : result<void>{all.error()};
  });
  CHECK(peer_threads::all_succeeded(done));
}
