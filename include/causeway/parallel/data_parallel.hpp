// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP
#define CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP

// One full replica per peer.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct data_parallel_options {
  std::int64_t micro_batches = 1;  ///< pieces that a batch is cut into, one after the other, to save memory
  /// The gradient of each micro-batch is computed by itself and then added, as if each had a machine of its own: the bits
  /// of a site of as many ranks that add up in their order. Else kernels add token by token to what is there. Costs one
  /// more buffer of gradients, and three passes over it a micro-batch.
  bool added_apart = false;
};

/// Gradient of the mean loss over the peer's batch, accumulated over micro-batches of equal size. Sends nothing. Memory:
/// activations of one micro-batch. The result does not depend on the other peers.
class data_parallel {
 public:
  static constexpr std::string_view name = "data_parallel";
  static constexpr parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  explicit data_parallel(data_parallel_options options = {}) : options_{options} {}

  result<void> start(auto&) { return {}; }

  result<double> forward_backward(auto& ctx, const batch& b) {
    const std::int64_t pieces = options_.micro_batches;
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    const std::int64_t count = b.sequences / pieces;
    const float scale = 1.0F / static_cast<float>(b.tokens());
    double loss = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const bool apart = options_.added_apart && i > 0;
      if (apart) CAUSEWAY_TRY(put_aside(ctx));
      CAUSEWAY_ASSIGN(const double sum, ctx.forward_backward(b.slice(i * count, count), scale));
      loss += sum;
      if (apart) CAUSEWAY_TRY(ctx.rows().add(ctx.gradients(), 1.0F, before_));
    }
    if constexpr (requires { ctx.model().complete_gradients(loss); }) {
      CAUSEWAY_ASSIGN(loss, ctx.model().complete_gradients(loss));
    }
    return loss / static_cast<double>(b.tokens());
  }

  result<float> norm(auto& ctx) { return ctx.own_norm(); }
  result<void> after_step(auto&) { return {}; }

  result<double> evaluate(auto& ctx, const batch& b) {
    CAUSEWAY_ASSIGN(const double sum, ctx.model().evaluate(b.inputs, b.targets, b.sequences));
    return sum / static_cast<double>(b.tokens());
  }

  void serialize(auto&) {}

 private:
  result<void> put_aside(auto& ctx) {
    move_to(ctx.memory(), before_);
    before_.resize(ctx.gradients().size());
    CAUSEWAY_TRY(ctx.rows().copy(before_, ctx.gradients()));
    return ctx.rows().zero(ctx.gradients());
  }

  data_parallel_options options_;
  source_vector<float> before_;  ///< the gradient of the micro-batches so far
};
static_assert(ParallelismPolicy<data_parallel>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP
