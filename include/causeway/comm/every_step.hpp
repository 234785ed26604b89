// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_EVERY_STEP_HPP
#define CAUSEWAY_COMM_EVERY_STEP_HPP

// Synchronous data parallelism: gradients are averaged over all peers before every inner step. The baseline that every
// other communication policy is measured against.

#include <causeway/collective/encoding.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

/// g ← (1/n) Σ g_i before each inner step; all peers then take the same inner step and stay identical.
///
/// Cost per step: one exchange of P values through `Codec`, 2(n−1)/n · P · bytes-per-value sent and received by each peer.
/// A failed exchange leaves the gradients as they were where the fault policy can retry.
template <class Codec = compress::none>
class every_step {
  static_assert(collective::Encoding<Codec>,
                "causeway-P8: comm::every_step is given a codec that is none: it lacks a member of compress::Codec. "
                "Codecs are in compress/. docs/reference/rules.md#p8");

 public:
  static constexpr std::string_view name = "every_step";
  static constexpr comm_traits traits{.tolerates = peers::elastic,
                                      .exchanges_gradients = true,
                                      .sums_gradients = std::is_same_v<Codec, compress::none>,
                                      .moves_with_blocks = !std::is_same_v<Codec, compress::none>,
                                      .rows_in_parts = !std::is_same_v<Codec, compress::none>,
                                      .replays = true};
  static constexpr std::uint32_t state_version = 2;

  explicit every_step(Codec codec = Codec{}) : codec_{std::move(codec)} {}

  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto& ctx) { return ctx.mean(codec_, ctx.gradients()); }
  result<void> after_inner_step(auto& ctx) {
    ++steps_;
    ctx.commit_round();
    return {};
  }
  result<void> finish(auto&) { return {}; }

  void serialize(auto& ar) { ar(steps_); }

  // Parameters and the inner optimizer are equal on all peers; the context shares them for every policy of global steps.
  void shared(auto& ar) { ar(steps_); }
  void adopt(auto& ctx, std::span<const float> previous) { ctx.resume_at(steps_, !previous.empty()); }
  /// The gradients are the mean of a round: the step that the others took with it.
  [[nodiscard]] static constexpr bool replays() noexcept { return true; }
  result<void> replay(auto& ctx) {
    CAUSEWAY_TRY(ctx.inner_step());
    ctx.resume_at(++steps_);
    return {};
  }

  // Where blocks of the model move between peers: nothing is kept for a parameter.
  [[nodiscard]] std::vector<parameter_row> block_rows() { return {}; }
  result<void> divide(auto&, std::span<const parameter_segment>) { return {}; }

  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return {}; }
  result<void> forget(auto&) { return {}; }
  [[nodiscard]] static bool exchanges_next() { return true; }
  [[nodiscard]] static std::optional<bool> row_waits() { return {}; }

  /// One like it that has not begun, for other blocks.
  [[nodiscard]] every_step another() const { return every_step{codec_}; }

  result<void> catch_up(auto& ctx) {
    const auto gradients = ctx.gradients();
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    CAUSEWAY_TRY(before_inner_step(ctx));
    CAUSEWAY_TRY(ctx.inner_step());
    CAUSEWAY_TRY(after_inner_step(ctx));
    ctx.resume_at(steps_);
    return {};
  }

 private:
  Codec codec_;
  std::uint64_t steps_ = 0;
};
static_assert(CommunicationPolicy<every_step<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_EVERY_STEP_HPP
