// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_PRODUCT_KEY_GATE_HPP
#define CAUSEWAY_STAGE_PRODUCT_KEY_GATE_HPP

// The gate of Learning@home's mixture of experts (Ryabinin and Gusev, NeurIPS 2020): an expert's score is a sum over the
// axes of the grid, g(x, e) = Σ_i (W_i·x)[e_i], so that a few hundred numbers score millions of experts, and a beam search
// along the axes finds the best among those that are alive. An expert that does not answer is left out, and the weights of
// the others are those of a softmax over them alone. A softmax for each axis would change nothing: it takes the same from
// all scores of a row.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// An expert for a row.
struct expert_choice {
  expert_id expert = 0;
  float score = 0;
};

/// What was chosen for the rows of a micro-batch: choices [first[r], first[r + 1]) are of row r, best first.
struct expert_choices {
  std::vector<std::size_t> first;
  std::vector<expert_choice> all;

  [[nodiscard]] std::size_t rows() const noexcept { return first.empty() ? 0 : first.size() - 1; }
};

struct product_key_options {
  std::uint32_t chosen = 4;  ///< experts a row: k
  std::uint32_t beam = 0;    ///< prefixes kept on each axis, at least `chosen`; 0: as many (the paper's)
  std::uint64_t seed = 0;    ///< of the first weights
};

namespace detail {

/// A total order: no two experts are equal.
[[nodiscard]] CAUSEWAY_INLINE bool better(const expert_choice& a, const expert_choice& b) noexcept;

}  // namespace detail

/// The best `chosen` alive experts by a beam search, best first, ties by number; fewer where fewer are alive. `scores`: of
/// one row, axis after axis; finite. Asks the directory 1 + beam · (axes - 1) times and scores beam · side experts an axis.
///
/// With all experts alive the result is exact: each prefix that is left out loses to `beam` others, and all have the same
/// best continuation. Where experts are missing, it may miss an expert whose prefix is poor but whose betters have lost
/// their best; a wider beam misses fewer, one as wide as there are prefixes none.
template <ExpertDirectory Directory>
[[nodiscard]] std::vector<expert_choice> best_experts(const Directory& directory, std::span<const float> scores,
                                                      std::uint32_t chosen, std::uint32_t beam) {
  const expert_grid& grid = directory.grid();
  CAUSEWAY_EXPECT(scores.size() == grid.heads() && chosen >= 1 && beam >= chosen);
  std::vector<expert_choice> kept{{}}, next;
  std::vector<std::uint32_t> places;
  for (std::size_t axis = 0; axis < grid.axes(); ++axis) {
    const std::uint32_t side = grid.sides()[axis];
    next.clear();
    for (const expert_choice& prefix : kept) {
      directory.extensions(prefix.expert, axis, places);
      for (const std::uint32_t p : places) next.push_back({prefix.expert * side + p, prefix.score + scores[p]});
    }
    const std::size_t width = axis + 1 == grid.axes() ? chosen : beam;
    const auto end = next.begin() + static_cast<std::ptrdiff_t>(std::min(width, next.size()));
    std::partial_sort(next.begin(), end, next.end(), detail::better);
    next.erase(end, next.end());
    kept.swap(next);
    scores = scores.subspan(side);
  }
  return kept;
}

/// weights[c] = softmax over the choices of each row that answered; 0 for the others, and for all where none did.
/// `answered`: one for each choice, 0 where the expert is missing.
CAUSEWAY_DECL void weigh_experts(const expert_choices& choices, std::span<const std::uint8_t> answered,
                                 std::span<float> weights);

/// The gradient of the scores from that of the weights, which `weigh_experts` made: ds = w·(dw - Σ w·dw), in place.
CAUSEWAY_DECL void weigh_experts_backward(const expert_choices& choices, std::span<const float> weights,
                                          std::span<float> gradient);

/// The trained part: W, [heads, width], one row for each place of each axis. One thread at a time.
class product_key_gate {
 public:
  /// errc::invalid_argument for options that cannot work.
  CAUSEWAY_DECL static result<product_key_gate> create(std::int64_t width, const expert_grid& grid,
                                                       const product_key_options& options = {});

  [[nodiscard]] const product_key_options& options() const noexcept { return options_; }
  [[nodiscard]] std::span<float> weights() noexcept { return weights_; }
  [[nodiscard]] std::span<const float> weights() const noexcept { return weights_; }
  [[nodiscard]] std::span<float> gradients() noexcept { return gradients_; }

  /// Experts for each row of x [rows, width]. errc::non_finite where a row's scores are not finite.
  template <ExpertDirectory Directory>
  result<expert_choices> choose(thread_pool& pool, std::span<const float> x, const Directory& directory) {
    const std::size_t rows = rows_of(x), heads = grid_.heads();
    CAUSEWAY_EXPECT(std::ranges::equal(directory.grid().sides(), grid_.sides()));
    scores_.resize(rows * heads);
    kernels::gemm_args<float, float> args = shape(rows, heads, width_);
    args.transpose_b = true;
    args.a = x.data(), args.lda = args.k, args.b = weights_.data(), args.ldb = args.k;
    args.c = scores_.data(), args.ldc = args.n;
    if (rows > 0) kernels::packed_gemm{}.multiply(pool, memory_, args);
    expert_choices choices{{0}, {}};
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = std::span<const float>{scores_}.subspan(r * heads, heads);
      if (!std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); })) {
        return fail(errc::non_finite, "product_key_gate",
                    "row " + std::to_string(r) + " has scores that are NaN or infinite; lower the learning rate");
      }
      const auto best = best_experts(directory, row, options_.chosen, options_.beam);
      choices.all.insert(choices.all.end(), best.begin(), best.end());
      choices.first.push_back(choices.all.size());
    }
    return choices;
  }

  /// Adds to the gradients of W, and to `dx` [rows, width], from `d_scores`, one for each choice.
  CAUSEWAY_DECL void backward(thread_pool& pool, std::span<const float> x, const expert_choices& choices,
                              std::span<const float> d_scores, std::span<float> dx);

  void serialize(auto& ar) { ar(weights_); }

 private:
  CAUSEWAY_DECL product_key_gate(std::int64_t width, const expert_grid& grid, const product_key_options& options);

  CAUSEWAY_DECL [[nodiscard]] std::size_t rows_of(std::span<const float> x) const;
  CAUSEWAY_DECL static kernels::gemm_args<float, float> shape(std::size_t m, std::size_t n, std::size_t k);

  /// scores_ ← the gradient of all scores [rows, heads]: a choice's goes to its place on every axis.
  CAUSEWAY_DECL void spread(const expert_choices& choices, std::span<const float> d_scores);

  expert_grid grid_;
  product_key_options options_;
  std::size_t width_;
  std::vector<float> weights_, gradients_;
  std::vector<float> scores_;  // working memory
  scratch memory_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/product_key_gate.ipp>
#endif

#endif  // CAUSEWAY_STAGE_PRODUCT_KEY_GATE_HPP
