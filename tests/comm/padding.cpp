// SPDX-License-Identifier: Apache-2.0
// Tensors lie in a flat buffer with padding between them. It stays zero under every policy, also under codecs that have no
// level for zero: else it would count in norms, and be sent.

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/trainer.hpp>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

/// The largest value that belongs to no tensor, of live parameters, gradients and what the policy shares.
template <class MakePolicy>
float largest_in_padding(MakePolicy make) {
  float most = 0;
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{support::blocky{}}, std::move(env), {}, make(), optim::adamw{});
    if (const auto started = t.start(); !started) FAIL(started.error().text());
    const auto look = [&](std::span<const float> values) {
      if (values.empty()) return;
      const auto padding = padding_of(t.model().parameters().segments(), values.size());
      REQUIRE(padding.size() > 5);
      for (const index_range r : padding) {
        for (auto i = r.begin; i < r.end; ++i) most = std::max(most, std::abs(values[static_cast<std::size_t>(i)]));
      }
    };
    for (std::uint64_t s = 0; s < 7; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      if (const auto report = t.step({tokens, tokens, 1}); !report) FAIL(report.error().text());
      look(t.model().parameters().values());
      look(t.model().parameters().gradients());
      if constexpr (requires { t.comm().shared_parameters(); }) look(t.comm().shared_parameters());
    }
  });
  return most;
}

template <class Codec>
void check_codec() {
  CHECK(largest_in_padding([] { return comm::every_step<Codec>{}; }) == 0);
  CHECK(largest_in_padding([] {
          return comm::rounds{axis::every{2}, axis::balanced{2}, axis::split_mean<Codec>{}, axis::error_feedback{}};
        }) == 0);
}

}  // namespace

TEST_CASE("padding: stays zero under every codec", "[comm][fast]") {
  check_codec<compress::bits<1>>();
  check_codec<compress::bits<2>>();
  check_codec<compress::sigma_int8>();
  check_codec<compress::sign>();
}

TEST_CASE("padding: stays zero under every policy", "[comm][fast]") {
  using axis::every;
  using two_bits = compress::bits<2>;
  const axis::gather_mean<two_bits> gathered{};
  CHECK(largest_in_padding([] { return comm::periodic<optim::nesterov, two_bits>{{.local_steps = 2}}; }) == 0);
  CHECK(largest_in_padding([] { return comm::rounds{every{2}, axis::all_reduce<two_bits>{}}; }) == 0);
  CHECK(largest_in_padding([&] {
          return comm::rounds{every{2}, gathered, axis::implicit_residual{}, axis::one_round_late{}};
        }) == 0);
  CHECK(largest_in_padding([&] {
          return comm::rounds{every{1}, gathered, axis::gradient{}, axis::momentum_residual{}};
        }) == 0);
  CHECK(largest_in_padding([&] {
          return comm::rounds{every{2}, gathered, axis::parameters{}, axis::delayed{1, 0.5F}};
        }) == 0);
}
