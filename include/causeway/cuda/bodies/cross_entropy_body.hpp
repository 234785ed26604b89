// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_CROSS_ENTROPY_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_CROSS_ENTROPY_BODY_HPP

// The loss of a row of logits and its gradient in one visit, a group of threads to a row. The largest logit and the sum of
// exponentials are found in one pass (Milakov and Gimelshein, 2018): a thread that meets a larger logit multiplies its sum
// by what the older ones are worth now. So a vocabulary of any size is read once from memory and once from the cache, and
// written once.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// losses[row] = -log softmax(logits[row])[targets[row]], and where `gradient` is not null, gradient[row] =
/// scale · (softmax - onehot). Rows with a negative target have no loss and no gradient; other targets must be below V.
/// logits and gradient are [rows, stride], of which V columns count; the others of gradient become zero (a vocabulary that
/// was padded for the sake of the matrix product). gradient may be the logits themselves.
template <class Logit, class Act>
struct cross_entropy_body {
  const Logit* logits = nullptr;
  Act* gradient = nullptr;
  const std::int32_t* targets = nullptr;
  float* losses = nullptr;
  std::int64_t V = 0;
  std::int64_t stride = 0;
  float scale = 1.0F;

  [[nodiscard]] bool aligned() const {
    return stride % pack_width == 0 && detail::on_packs(logits) && detail::on_packs(gradient);
  }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t row) const {
    const std::int32_t target = targets[row];
    if (target < 0) {
      if (g.rank() == 0) losses[row] = 0.0F;
      if (gradient != nullptr) clear<N>(g, gradient + row * stride, stride);
      return;
    }
    const Logit* const from = logits + row * stride;
    const auto chosen = static_cast<float>(from[target]);  // before anybody overwrites it: reductions wait for all
    float top = std::numeric_limits<float>::lowest(), sum = 0.0F;
    detail::for_packs<N>(g, V, [&](std::int64_t i, auto width) {
      float v[width.value];
      detail::load(v, from + i);
      take(v, top, sum);
    });
    const float highest = g.largest(top);
    sum = g.sum(sum * detail::exponential(top - highest));
    if (g.rank() == 0) losses[row] = std::log(sum) + highest - chosen;
    if (gradient != nullptr) write<N>(g, from, row, target, highest, 1.0F / sum);
  }

 private:
  /// Adds a pack to a sum of exponentials relative to `top`.
  template <int N>
  CAUSEWAY_HD static void take(const float (&v)[N], float& top, float& sum) {
    float most = v[0];
    for (int k = 1; k < N; ++k) most = v[k] > most ? v[k] : most;
    if (most > top) {
      sum *= detail::exponential(top - most);
      top = most;
    }
    for (const float e : v) sum += detail::exponential(e - top);
  }

  template <int N, class G>
  CAUSEWAY_HD void write(const G& g, const Logit* from, std::int64_t row, std::int32_t target, float highest,
                         float inverse) const {
    Act* const to = gradient + row * stride;
    detail::for_packs<N>(g, V, [&](std::int64_t i, auto width) {
      constexpr int n = width.value;
      float v[n];
      detail::load(v, from + i);
      for (int k = 0; k < n; ++k) {
        const float share = detail::exponential(v[k] - highest) * inverse;
        v[k] = scale * (i + k == target ? share - 1.0F : share);
      }
      detail::store(to + i, v);
    });
    clear<1>(g, to + V, stride - V);
  }

  template <int N, class G>
  CAUSEWAY_HD static void clear(const G& g, Act* to, std::int64_t count) {
    detail::for_packs<N>(g, count, [&](std::int64_t i, auto width) {
      const float zeros[width.value] = {};
      detail::store(to + i, zeros);
    });
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_CROSS_ENTROPY_BODY_HPP
