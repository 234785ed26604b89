// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_POST_LOCAL_HPP
#define CAUSEWAY_COMM_POST_LOCAL_HPP

// Synchronous first steps before rounds of local ones: post-local SGD (Lin et al. 2018, arXiv 1808.07217), and the warm-up
// steps of EDiT's authors' code.

#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>
#include <causeway/policy/traits.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

struct post_local_options {
  std::uint32_t steps = 1000;  ///< inner steps with gradients averaged in each, at least 1; equal on all peers
};

/// g ← (1/n) Σ g_i in each of the first W steps, as comm::every_step does; then `Rounds` (a comm::rounds, of what local
/// steps moved), as if training began there. After these steps parameters and the inner optimizer's state are equal on all
/// peers; the parameters are what the first round counts from, and the state is what each peer goes on with.
///
/// Cost: 4P bytes as every_step sends them in each of the first W steps, then what the rounds cost. State: the rounds'.
/// Not built: peers that come and go. A newcomer would need the others' inner optimizer until step W, and none after it.
template <class Rounds>
class post_local {
  static_assert(!Rounds::traits.exchanges_gradients && !Rounds::traits.looks_ahead,
                "comm::post_local is given rounds of gradients, which are exchanged in every step already: leave it out");

 public:
  static constexpr std::string_view name = "post_local";
  static constexpr comm_traits traits{.exchanges_gradients = true,
                                      .identical_replicas = Rounds::traits.identical_replicas,
                                      .rounds_by_steps = Rounds::traits.rounds_by_steps,
                                      .rounds_over_stages = Rounds::traits.rounds_over_stages,
                                      .rounds_by_clock = Rounds::traits.rounds_by_clock,
                                      .draws_peers = Rounds::traits.draws_peers};
  static constexpr std::uint32_t state_version = 1;

  explicit post_local(Rounds rounds = Rounds{}, post_local_options options = {})
      : rounds_{std::move(rounds)}, options_{options} {}

  [[nodiscard]] Rounds& rounds() noexcept { return rounds_; }
  /// Whether gradients are averaged in the next step.
  [[nodiscard]] bool synchronous() const noexcept { return done_ < options_.steps; }

  result<void> start(auto& ctx) {
    if (options_.steps == 0) return fail(errc::invalid_argument, "post_local", "no synchronous steps; take at least 1");
    return rounds_.start(ctx);
  }
  result<void> before_inner_step(auto& ctx) {
    return synchronous() ? ctx.mean(compress::none{}, ctx.gradients()) : rounds_.before_inner_step(ctx);
  }
  result<void> after_inner_step(auto& ctx) {
    if (!synchronous()) return rounds_.after_inner_step(ctx);
    if (done_ + 1 == options_.steps) CAUSEWAY_TRY(rounds_.begin_here(ctx));
    ++done_;
    ctx.commit_round();
    return {};
  }
  /// A run that ends before its first round has equal parameters everywhere.
  result<void> finish(auto& ctx) { return synchronous() ? result<void>{} : rounds_.finish(ctx); }

  [[nodiscard]] bool trains(auto& ctx) const { return synchronous() || rounds_.trains(ctx); }

  void serialize(auto& ar) { ar(rounds_, done_); }

 private:
  Rounds rounds_;
  post_local_options options_;
  std::uint32_t done_ = 0;  // synchronous steps
};

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_POST_LOCAL_HPP
