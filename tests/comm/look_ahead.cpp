// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/look_ahead.hpp>

#include <causeway/kernels/rows.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/train/environment.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct fragment {
  std::vector<index_range> ranges;
};
struct sent {
  bool pending = true;
  const fragment* cut = nullptr;
  std::vector<float> input;
};
struct falling {
  static float at(std::uint64_t step) { return 1.0F / static_cast<float>(step); }
};
/// From where others are given the parameters.
struct group {
  std::vector<const float*> offered;
  void offer_parameters_at(std::span<float> where) { offered.push_back(where.data()); }
};
struct context {
  group peers;
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  int changes = 0;
  thread_pool pool{1};

  std::span<float> parameters() { return values; }
  auto rows() { return kernels::host_rows{pool}; }
  static std::uint64_t step() { return 3; }
  static trainer_options options() { return {.learning_rate = falling{}}; }
  void parameters_changed() { ++changes; }
  group& membership() { return peers; }
};

}  // namespace

static_assert(presets::distro::traits.looks_ahead);
static_assert(!presets::demo::traits.looks_ahead && !presets::every_step::traits.looks_ahead);

TEST_CASE("look-ahead: a step by the signs of what was sent, undone to the bit", "[comm][fast]") {
  context ctx;
  const fragment outer{{{0, 1}, {4, 6}}}, inner{{{1, 4}}};
  std::vector<sent> states{{true, &outer, {-3, 0, 1e-30F}}, {false, &inner, {1, 1, 1}}};
  std::vector<float> before, seen;
  const auto loss = comm::detail::at_look_ahead(ctx, states, before, [&]() -> result<double> {
    seen = ctx.values;
    return 2.5;
  });
  REQUIRE(loss);
  CHECK(*loss == 2.5);
  CHECK(seen == std::vector<float>{1.5F, 2, 3, 4, 5, 5.5F});
  CHECK(ctx.values == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(ctx.changes == 2);

  const auto failed = comm::detail::at_look_ahead(ctx, states, before,
                                                  []() -> result<double> { return fail(errc::cancelled, "test", "no"); });
  CHECK_FALSE(failed);
  CHECK(ctx.values == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("look-ahead: others are given the parameters as they were", "[comm][fast]") {
  context ctx;
  const fragment all{{{0, 6}}};
  const std::vector<sent> states{{true, &all, {1, 1, 1, 1, 1, 1}}};
  std::vector<float> before, given;
  const auto pass = [&]() -> result<double> {
    given.assign(ctx.peers.offered.back(), ctx.peers.offered.back() + 6);
    return 0.0;
  };
  REQUIRE(comm::detail::at_look_ahead(ctx, states, before, pass));
  CHECK(given == ctx.values);
  CHECK(ctx.peers.offered == std::vector<const float*>{before.data(), ctx.values.data()});
}
