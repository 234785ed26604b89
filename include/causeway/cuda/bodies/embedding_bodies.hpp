// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_EMBEDDING_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_EMBEDDING_BODIES_HPP

// Token and position tables: look-up, and the gradient of the token table, to the bits of kernels/embedding.hpp. It is
// a scatter in which tokens meet. The rows are sorted by their token (stably, so equal tokens keep the order of the text),
// and the first thread of each run of equal tokens adds the run in that order: no atomics, the same sum every time.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// x[row] = token_table[tokens[row]] + position_table[row % positions], f32 [rows, columns], over its elements;
/// position_table may be null. Tokens must be rows of the table.
struct embedding_forward_body {
  const std::int32_t* tokens = nullptr;
  const float* token_table = nullptr;
  const float* position_table = nullptr;
  float* x = nullptr;
  std::int64_t positions = 1;
  std::int64_t columns = 1;

  [[nodiscard]] bool aligned() const {
    return columns % pack_width == 0 && detail::on_packs(token_table, position_table) && detail::on_packs(x);
  }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const std::int64_t row = i / columns, column = i % columns;
    float v[N], p[N] = {};
    detail::load(v, token_table + tokens[row] * columns + column);
    if (position_table != nullptr) detail::load(p, position_table + row % positions * columns + column);
    for (int k = 0; k < N; ++k) v[k] += p[k];
    detail::store(x + i, v);
  }
};

/// dtable[token] += the sum of dx[row] over the rows of this token, in their order. `tokens` [count] is sorted and `rows`
/// says where each came from; over count · columns. A token that makes up much of the batch is the longest run, which one
/// thread for every four columns adds alone.
struct embedding_backward_body {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* rows = nullptr;
  const float* dx = nullptr;
  float* dtable = nullptr;
  std::int64_t count = 0;
  std::int64_t columns = 1;

  [[nodiscard]] bool aligned() const {
    return columns % pack_width == 0 && detail::on_packs(dx) && detail::on_packs(dtable);
  }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const std::int64_t first = i / columns, column = i % columns;
    const std::int32_t token = tokens[first];
    if (first > 0 && tokens[first - 1] == token) return;  // the run began further left
    float sum[N], v[N];
    float* const to = dtable + token * columns + column;
    detail::load(sum, to);
    for (std::int64_t at = first; at < count && tokens[at] == token; ++at) {
      detail::load(v, dx + rows[at] * columns + column);
      for (int k = 0; k < N; ++k) sum[k] += v[k];
    }
    detail::store(to, sum);
  }
};

/// to[i] = i.
struct count_body {
  std::int32_t* to = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const { to[i] = static_cast<std::int32_t>(i); }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_EMBEDDING_BODIES_HPP
