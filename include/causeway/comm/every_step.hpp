// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_EVERY_STEP_HPP
#define CAUSEWAY_COMM_EVERY_STEP_HPP

// Synchronous data parallelism: gradients are averaged over all peers before every inner step. The baseline that every
// other communication policy is measured against.

#include <causeway/compress/none.hpp>
#include <causeway/policy/concepts.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::comm {

/// g ← (1/n) Σ g_i before each inner step; all peers then take the same inner step and stay identical.
///
/// Cost per step: one exchange of P values through `Codec`, 2(n−1)/n · P · bytes-per-value sent and received by each peer.
/// A failed exchange leaves the gradients as they were where the fault policy can retry.
template <class Codec = compress::none>
class every_step {
 public:
  static constexpr std::string_view name = "every_step";
  static constexpr comm_traits traits{.needs_global_step = true};
  static constexpr std::uint32_t state_version = 1;

  explicit every_step(Codec codec = Codec{}) : codec_{std::move(codec)} {}

  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto& ctx) { return ctx.mean(codec_, ctx.gradients()); }
  result<void> after_inner_step(auto& ctx) {
    ctx.commit_round();
    return {};
  }
  result<void> finish(auto&) { return {}; }

  void serialize(auto&) {}

 private:
  Codec codec_;
};
static_assert(CommunicationPolicy<every_step<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_EVERY_STEP_HPP
