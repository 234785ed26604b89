// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_PRODUCT_KEY_GATE_IPP
#define CAUSEWAY_STAGE_IMPL_PRODUCT_KEY_GATE_IPP

#include <causeway/stage/product_key_gate.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_INLINE bool better(const expert_choice& a, const expert_choice& b) noexcept {
  return a.score != b.score ? a.score > b.score : a.expert < b.expert;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL void weigh_experts(const expert_choices& choices, std::span<const std::uint8_t> answered,
                                 std::span<float> weights) {
  CAUSEWAY_EXPECT(answered.size() == choices.all.size() && weights.size() == answered.size());
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (std::size_t r = 0; r < choices.rows(); ++r) {
    const float* best = nullptr;  // choices are in the order of scores
    double sum = 0;
    for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
      if (answered[c] == 0) continue;
      if (best == nullptr) best = &choices.all[c].score;
      weights[c] = std::exp(choices.all[c].score - *best);
      sum += static_cast<double>(weights[c]);
    }
    for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
      if (sum > 0) weights[c] = static_cast<float>(static_cast<double>(weights[c]) / sum);
    }
  }
}

CAUSEWAY_DECL void weigh_experts_backward(const expert_choices& choices, std::span<const float> weights,
                                          std::span<float> gradient) {
  CAUSEWAY_EXPECT(weights.size() == choices.all.size() && gradient.size() == weights.size());
  for (std::size_t r = 0; r < choices.rows(); ++r) {
    double mean = 0;
    for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
      mean += static_cast<double>(weights[c]) * static_cast<double>(gradient[c]);
    }
    for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
      gradient[c] = weights[c] * static_cast<float>(static_cast<double>(gradient[c]) - mean);
    }
  }
}

CAUSEWAY_DECL result<product_key_gate> product_key_gate::create(std::int64_t width, const expert_grid& grid,
                                                                const product_key_options& options) {
  const std::uint32_t beam = options.beam == 0 ? options.chosen : options.beam;
  if (width < 1 || options.chosen < 1 || beam < options.chosen) {
    return fail(errc::invalid_argument, "product_key_gate",
                "rows of " + std::to_string(width) + " values, " + std::to_string(options.chosen) +
                    " experts each, a beam of " + std::to_string(beam) +
                    "; all must be at least 1, the beam at least the experts");
  }
  return product_key_gate{width, grid, {options.chosen, beam, options.seed}};
}

CAUSEWAY_DECL void product_key_gate::backward(thread_pool& pool, std::span<const float> x, const expert_choices& choices,
                                              std::span<const float> d_scores, std::span<float> dx) {
  const std::size_t rows = rows_of(x), heads = grid_.heads();
  CAUSEWAY_EXPECT(choices.rows() == rows && d_scores.size() == choices.all.size() && dx.size() == x.size());
  if (rows == 0) return;
  spread(choices, d_scores);
  kernels::gemm_args<float, float> args = shape(heads, width_, rows);
  args.transpose_a = true, args.accumulate = true;
  args.a = scores_.data(), args.lda = args.m, args.b = x.data(), args.ldb = args.n;
  args.c = gradients_.data(), args.ldc = args.n;
  kernels::packed_gemm{}.multiply(pool, memory_, args);
  args = shape(rows, width_, heads);
  args.accumulate = true;
  args.a = scores_.data(), args.lda = args.k, args.b = weights_.data(), args.ldb = args.n;
  args.c = dx.data(), args.ldc = args.n;
  kernels::packed_gemm{}.multiply(pool, memory_, args);
}

CAUSEWAY_DECL product_key_gate::product_key_gate(std::int64_t width, const expert_grid& grid,
                                                 const product_key_options& options)
    : grid_{grid},
      options_{options},
      width_{static_cast<std::size_t>(width)},
      weights_(grid.heads() * width_),
      gradients_(weights_.size()) {
  rng draw{options.seed, 0x67617465U};
  const float deviation = 1.0F / std::sqrt(static_cast<float>(width));
  for (float& w : weights_) w = deviation * draw.normal();
}

CAUSEWAY_DECL std::size_t product_key_gate::rows_of(std::span<const float> x) const {
  CAUSEWAY_EXPECT(x.size() % width_ == 0);
  return x.size() / width_;
}

CAUSEWAY_DECL kernels::gemm_args<float, float> product_key_gate::shape(std::size_t m, std::size_t n, std::size_t k) {
  kernels::gemm_args<float, float> args;
  args.m = static_cast<std::int64_t>(m), args.n = static_cast<std::int64_t>(n), args.k = static_cast<std::int64_t>(k);
  return args;
}

CAUSEWAY_DECL void product_key_gate::spread(const expert_choices& choices, std::span<const float> d_scores) {
  const std::size_t heads = grid_.heads();
  scores_.assign(choices.rows() * heads, 0.0F);
  for (std::size_t r = 0; r < choices.rows(); ++r) {
    for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
      std::size_t at = r * heads;
      for (std::size_t axis = 0; axis < grid_.axes(); ++axis) {
        scores_[at + grid_.coordinate(choices.all[c].expert, axis)] += d_scores[c];
        at += grid_.sides()[axis];
      }
    }
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_PRODUCT_KEY_GATE_IPP
