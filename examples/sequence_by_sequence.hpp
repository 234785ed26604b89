// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SEQUENCE_BY_SEQUENCE_HPP
#define CAUSEWAY_EXAMPLES_SEQUENCE_BY_SEQUENCE_HPP

// A parallelism policy of one's own: a peer computes its batch one sequence after the other, in the memory of one.

#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/batch.hpp>

// [policy]
class sequence_by_sequence {
 public:
  static constexpr std::string_view name = "acme.sequence_by_sequence";
  static constexpr causeway::parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  causeway::result<void> start(auto&) { return {}; }
  causeway::result<double> forward_backward(auto& ctx, const causeway::batch& b) {
    const float scale = 1.0F / static_cast<float>(b.tokens());  // the gradient of the batch's mean loss
    double sum = 0;
    for (std::int64_t i = 0; i < b.sequences; ++i) {
      CAUSEWAY_ASSIGN(const double loss, ctx.forward_backward(b.slice(i, 1), scale));
      sum += loss;
    }
    return sum / static_cast<double>(b.tokens());
  }
  causeway::result<float> norm(auto& ctx) { return ctx.own_norm(); }
  causeway::result<void> after_step(auto&) { return {}; }
  causeway::result<double> evaluate(auto& ctx, const causeway::batch& b) {
    CAUSEWAY_ASSIGN(const double sum, ctx.model().evaluate(b.inputs, b.targets, b.sequences));
    return sum / static_cast<double>(b.tokens());
  }
  void serialize(auto&) {}
};
// [policy]
static_assert(causeway::ParallelismPolicy<sequence_by_sequence>);

#endif  // CAUSEWAY_EXAMPLES_SEQUENCE_BY_SEQUENCE_HPP
