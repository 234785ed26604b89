// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_SKIP_HPP
#define CAUSEWAY_STAGE_ROUTING_SKIP_HPP

// Micro-batches that leave out some of the middle stages, after SkipPipe (Blagoev et al., 2025): a step takes less time,
// and a model of residual blocks still computes something sensible without some of them. Which stages a micro-batch leaves
// out is planned, not left to chance, so that the work of the stages stays even and a queue that one micro-batch has
// lengthened is shortened by the next. SkipPipe searches for paths (routing_planned.hpp); the cyclic plan here is ours,
// with what it promises stated below.

#include <causeway/stage/routing.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

struct skip_options {
  std::uint32_t skipped = 1;  ///< middle stages that every micro-batch leaves out; at most all of them
};

/// Which stages are left out: every micro-batch leaves out `skipped` middle stages that follow each other in a circle, its
/// neighbour those behind them. Over any (stages − 2) / gcd(stages − 2, skipped) micro-batches in a row every middle stage
/// is left out equally often, so a stage with as many peers as before has (stages − 2 − skipped) / (stages − 2) of the
/// work. The first and the last stage, with the embedding and the loss, always run. Peers are chosen by `Inner`.
///
/// Only for models whose blocks are residual. A stage's gradient is the sum over the micro-batches that passed it.
template <Router Inner = least_load>
class skip {
 public:
  static constexpr std::string_view name = "skip";

  explicit skip(skip_options options = {}, Inner inner = Inner{}) : options_{options}, inner_{std::move(inner)} {}

  void begin(const step_size& size, const roster& known) { inner_.begin(size, known); }

  [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
    return inner_.choose(known, stage, micro_batch);
  }

  [[nodiscard]] bool runs(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const noexcept {
    if (stage == 0 || stage + 1 >= size.stages) return true;
    const std::uint64_t middle = size.stages - 2;
    if (options_.skipped >= middle) return false;
    const std::uint64_t first = (micro_batch + size.step * size.micro_batches) % middle * options_.skipped % middle;
    return (stage - 1 + middle - first) % middle >= options_.skipped;
  }

 private:
  skip_options options_;
  Inner inner_;
};
static_assert(Router<skip<>>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_ROUTING_SKIP_HPP
