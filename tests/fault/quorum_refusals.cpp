// SPDX-License-Identifier: Apache-2.0
// NaN, and messages that refuse, under fault::quorum with codecs: gathered sparse rows, and low-bit sums around a ring.

#include <causeway/fault/quorum.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

struct trouble {
  std::function<void(std::uint32_t, std::uint64_t, std::span<float>)> spoils{};
  std::function<support::misbehaviour(sim::process&)> misbehaves{};
  bool excluded = false;  ///< the others find it out, and host 2 alone
};

/// Five peers, of which host 2 has the trouble: all train to the end and hold the same.
template <class MakePolicy>
void goes_on(MakePolicy policy, const trouble& t) {
  std::vector<std::string> lines;
  support::elastic_options o{.peers = 5, .rounds = 8, .size = 200};
  o.trace = [&](std::string_view line) { lines.emplace_back(line); };
  o.spoils = t.spoils;
  o.misbehaves = t.misbehaves;
  support::elastic_cluster cluster{policy, o};
  cluster.boot();
  cluster.run(10min);
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  for (std::uint32_t i = 0; i < 5; ++i) {
    INFO("host " << i << ": " << cluster.error(i));
    CHECK(cluster.error(i).empty());
    const std::string sits_out = "peer " + std::to_string(cluster.id(i)) + " sits out";
    const bool said = std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(sits_out) != l.npos; });
    CHECK(said == (t.excluded && i == 2));
  }
  REQUIRE(cluster.finished() == 5);
  CHECK(cluster.checker().samples().done() == cluster.budget());
  for (std::uint32_t i = 1; i < 5; ++i) CHECK(cluster.parameters(i) == cluster.parameters(0));
}

/// Host 2 has `value` among its parameters once, in round 3.
trouble spoilt(float value) {
  return {.spoils = [done = false, value](std::uint32_t host, std::uint64_t round, std::span<float> parameters) mutable {
    if (host == 2 && round >= 3 && !std::exchange(done, true)) parameters[7] = value;
  }};
}

/// In round 4, host 2's data messages begin with `header`.
trouble says(std::uint32_t weight, std::uint32_t values, std::uint32_t peer, errc code) {
  return {.misbehaves =
              [=](sim::process& p) {
                if (p.host() != 2) return support::misbehaviour{};
                return support::misbehaviour{.alters = [=](const net::message_id& id, std::span<std::byte> bytes) {
                  const std::uint32_t header[] = {weight, values, peer, static_cast<std::uint32_t>(code)};
                  if (id.step == 4 && bytes.size() >= sizeof header) std::memcpy(bytes.data(), header, sizeof header);
                }};
              },
          .excluded = true};
}

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

const auto sparse = [] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 512}); };
const auto ring = [] { return make(presets::intellect1_options{.local_steps = 3}); };
const auto low_bit = [] { return make(presets::muloco_options{.local_steps = 3}); };
const auto half = [] { return comm::periodic<optim::nesterov, compress::fp16>{{.local_steps = 3}}; };

}  // namespace

TEST_CASE("quorum: a NaN in one peer's weights costs one contribution with every codec", "[fault][fast]") {
  goes_on(sparse, spoilt(not_a_number));
  goes_on(ring, spoilt(not_a_number));
  goes_on(low_bit, spoilt(not_a_number));
}

TEST_CASE("quorum: values that are finite and too large for 16 bits cost one contribution", "[fault][fast]") {
  trouble t = spoilt(1e6F);
  t.excluded = true;  // it learns of it from those who decode
  goes_on(half, t);
}

TEST_CASE("quorum: a message that refuses is its sender's fault, whatever it says", "[fault][fast]") {
  goes_on(sparse, says(0x3F800000, 200, 2, errc::non_finite));
  goes_on(sparse, says(0, 200, 0, errc::corrupt));           // blames another
  goes_on(sparse, says(0, 200, 5, errc::invalid_argument));  // there are no weights
  goes_on(sparse, says(0x7FC00000, 200, 0, errc{}));         // a weight of NaN
}
