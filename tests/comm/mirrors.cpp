// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/mirrors.hpp>

#include <causeway/optim/sgd.hpp>

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include "support/shaped.hpp"
#include "support/simulated_runs.hpp"

using namespace causeway;
using support::simulated_options;
using namespace std::chrono_literals;

namespace {

using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;

comm::mirrors<codec> policy(std::uint32_t most_ahead, float threshold = 0.05F) {
  return comm::mirrors<codec>{{.most_ahead = most_ahead},
                              codec{compress::no_transform{}, compress::significant{{.first = threshold}}}};
}

template <class MakePolicy>
support::simulated_run run(MakePolicy make, simulated_options options) {
  support::simulated_runs<optim::sgd, support::blocky, MakePolicy> runs{make, options};
  auto all = runs.run();
  support::all_alike(all);
  CHECK(runs.run().history == all.history);
  return all;
}

double took(const support::simulated_run& r, std::size_t peer) {
  return seconds(r.peers[peer].trained - r.peers[peer].began);
}

/// A codec that may have a byte more than others.
struct longer {
  static constexpr std::string_view name = codec::name;
  static constexpr compress::codec_traits traits = codec::traits;
  codec below{};
  std::size_t more = 0;

  [[nodiscard]] std::size_t most_bytes(const compress::message_context& ctx, std::size_t n) const {
    return below.most_bytes(ctx, n) + 1;
  }
  std::size_t encode(const compress::message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    return below.encode(ctx, values, room) + more;
  }
  result<void> decode_add(const compress::message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                          float weight, std::span<float> counts) const {
    return below.decode_add(ctx, bytes.first(bytes.size() - more), sum, weight, counts);
  }
};
static_assert(compress::MessageCodec<longer>);

}  // namespace

TEST_CASE("mirrors: restored and broken runs go on or name who is lost", "[comm][fast]") {
  support::check_asynchronous_policy<optim::sgd>([] { return policy(2); },
                                                 {.steps = 5, .speeds = {1, 2, 1}, .hubs = {0, 1, 2}});
}

TEST_CASE("mirrors: all that is computed counts, whatever was significant", "[comm][fast]") {
  // With one step, all parameters at the start: the sum of the updates of both.
  const simulated_options one{.peers = 2, .steps = 1};
  const auto filtered = run([] { return policy(4, 1e6F); }, one);
  const auto whole = run([] { return policy(4, 1e-9F); }, one);
  for (std::size_t i = 0; i < whole.peers[0].parameters.size(); ++i) {
    CHECK(filtered.peers[0].parameters[i] == Approx(whole.peers[0].parameters[i]).margin(1e-6));
  }
  CHECK(filtered.peers[0].sent < whole.peers[0].sent);
}

TEST_CASE("mirrors: peers at their own pace come as near to the optimum as with a barrier in every step", "[comm][fast]") {
  const auto distance = [](std::uint32_t most_ahead) {
    const auto all = run([=] { return policy(most_ahead, 0.01F); },
                         {.peers = 4, .steps = 80, .speeds = {1, 1.3, 1.6, 1}, .learning_rate = 0.025F});
    return support::distance_to_optimum(all.peers[0].parameters, 4, 80);
  };
  const double barrier = distance(1), apart = distance(4);
  CAPTURE(barrier, apart);
  CHECK(apart < 1.5 * barrier + 1e-3);
}

TEST_CASE("mirrors: nobody waits for who is less than most_ahead behind", "[comm][fast]") {
  simulated_options o{.peers = 3, .steps = 6, .speeds = {1, 1, 0.5}, .latency = 1ms};
  const auto free = run([] { return policy(100); }, o);
  CHECK(took(free, 0) == Approx(6 * 0.02).margin(1e-6));
  CHECK(took(free, 2) == Approx(6 * 0.04).margin(1e-6));
  // Clock 6 of the quick ones ends when clock 4 of the slow one, at 160 ms, is known.
  const auto held = run([] { return policy(2); }, o);
  CHECK(took(held, 0) > 5 * 0.04);
  CHECK(took(held, 0) < 5 * 0.04 + 0.005);
  const auto barrier = run([] { return policy(1); }, o);
  CHECK(took(barrier, 0) > 6 * 0.04);
  CHECK(took(barrier, 0) < 6 * 0.04 + 0.02);
}

TEST_CASE("mirrors: a barrier goes before what a slow line cannot carry in time", "[comm][fast]") {
  // 5 MB a clock: 42 ms at 125 MB/s. Steps take 100 ms, then 10 ms. No bound by the clock.
  const auto time = [](std::chrono::milliseconds step, float threshold) {
    const auto make = [=] { return policy(100, threshold); };
    support::simulated_runs<optim::sgd, support::shaped, decltype(make)> runs{make, {.peers = 2, .steps = 8, .step = step}};
    const auto all = runs.run();
    support::all_alike(all);
    return took(all, 0);
  };
  CHECK(time(100ms, 1e-9F) == Approx(8 * 0.1).margin(1e-6));  // the line has carried a clock's updates before the next
  // The first barrier is behind the first updates, which are there in step 6: the last three steps wait for one clock's
  // each.
  const double held = time(10ms, 1e-9F);
  CAPTURE(held);
  CHECK(held > 4 * 0.042);
  CHECK(held < 5 * 0.042);
  CHECK(time(10ms, 1e6F) == Approx(8 * 0.01).margin(1e-6));  // nothing significant: clocks only
}

TEST_CASE("mirrors: who sends nonsense is named", "[comm][fast]") {
  std::size_t made = 0;  // the peers' policies, in the order of their numbers
  const auto make = [&] { return comm::mirrors<longer>{{}, longer{codec{}, made++ == 1 ? 1U : 0U}}; };
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, {.peers = 2, .steps = 6}};
  const auto all = runs.run();
  REQUIRE(all.peers[0].error);
  CHECK(all.peers[0].error->code == errc::protocol);
  CHECK(all.peers[0].error->where == "peer 1");
}
