// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RANDOM_PAIR_HPP
#define CAUSEWAY_EXAMPLES_RANDOM_PAIR_HPP

// A communication policy of one's own: every few steps, each peer averages its parameters with a random partner.

#include <causeway/policy/concepts.hpp>

// [policy]
class random_pair {
 public:
  static constexpr std::string_view name = "acme.random_pair";
  static constexpr causeway::comm_traits traits{.exchanges_gradients = true, .identical_replicas = false};
  static constexpr std::uint32_t state_version = 1;

  explicit random_pair(std::uint32_t every = 50) : every_{every} {}

  causeway::result<void> start(auto&) { return {}; }
  causeway::result<void> before_inner_step(auto&) { return {}; }
  causeway::result<void> after_inner_step(auto& ctx) {
    if ((ctx.step() + 1) % every_ != 0) return {};
    const auto partner = ctx.random_partner();
    if (partner) CAUSEWAY_TRY(ctx.average_with(*partner, ctx.parameters()));  // of an odd number of peers, one stays alone
    ctx.parameters_changed();
    ctx.commit_round();
    return {};
  }
  causeway::result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}

 private:
  std::uint32_t every_;
};
// [policy]
static_assert(causeway::CommunicationPolicy<random_pair>);

#endif  // CAUSEWAY_EXAMPLES_RANDOM_PAIR_HPP
