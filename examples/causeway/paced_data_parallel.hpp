// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PACED_DATA_PARALLEL_HPP
#define CAUSEWAY_EXAMPLES_PACED_DATA_PARALLEL_HPP

// Data parallelism among peers that come and go.

#include <causeway/core/result.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace app {

/// data_parallel that says how much it computed, and takes batches of any size: the last samples of a run, or of a peer's
/// range, may be fewer than a batch.
class paced_data_parallel {
 public:
  static constexpr std::string_view name = "paced_data_parallel";
  static constexpr causeway::parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  using pace = std::function<void(std::int64_t tokens, double part)>;

  explicit paced_data_parallel(causeway::parallel::data_parallel_options options = {}, pace computed = {})
      : options_{options}, computed_{std::move(computed)} {}

  causeway::result<void> start(auto&) { return {}; }
  causeway::result<double> forward_backward(auto& ctx, const causeway::batch& b) {
    auto options = options_;
    options.micro_batches = std::min(options.micro_batches, b.sequences);
    while (b.sequences % options.micro_batches != 0) ++options.micro_batches;  // ends at b.sequences at the latest
    causeway::parallel::data_parallel inner{options};
    auto loss = inner.forward_backward(ctx, b);
    if (computed_) computed_(b.tokens(), 1);
    return loss;
  }

  causeway::result<float> norm(auto& ctx) { return ctx.own_norm(); }
  causeway::result<void> after_step(auto&) { return {}; }
  causeway::result<double> evaluate(auto& ctx, const causeway::batch& b) {
    return causeway::parallel::data_parallel{}.evaluate(ctx, b);
  }
  void serialize(auto&) {}

 private:
  causeway::parallel::data_parallel_options options_;
  pace computed_;
};
static_assert(causeway::ParallelismPolicy<paced_data_parallel>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PACED_DATA_PARALLEL_HPP
