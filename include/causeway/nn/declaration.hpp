// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_DECLARATION_HPP
#define CAUSEWAY_NN_DECLARATION_HPP

// How a family says which parameters it has and how each starts. Only matrices and tables start at random.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::nn {

/// How a parameter starts: normal with this mean and deviation.
struct initial_distribution {
  float mean = 0.0F;
  float deviation = 0.0F;
};

/// GPT-2's deviation, and the one of matrices that write into the residual stream: 2·layers of them add up.
inline constexpr float initial_deviation = 0.02F;
[[nodiscard]] inline float residual_deviation(std::int64_t layers) noexcept {
  return initial_deviation / std::sqrt(2.0F * static_cast<float>(layers));
}

/// Adds segments to a store and remembers how they start. All functions return the segment's number.
class declaration {
 public:
  explicit declaration(parameter_store& store) noexcept : store_{store} {}

  /// The block that the next parameters belong to (`parameter_segment::block`).
  void in_block(std::int64_t block) noexcept { block_ = static_cast<int>(block); }

  std::size_t table(std::string name, std::int64_t rows, std::int64_t columns) {
    return add(std::move(name), parameter_kind::embedding, rows, columns, {0.0F, initial_deviation});
  }
  std::size_t matrix(std::string name, std::int64_t outputs, std::int64_t inputs, float deviation = initial_deviation) {
    return add(std::move(name), parameter_kind::matrix, outputs, inputs, {0.0F, deviation});
  }
  std::size_t vector(std::string name, std::int64_t size, float value) {
    return add(std::move(name), parameter_kind::vector, 1, size, {value, 0.0F});
  }

  [[nodiscard]] std::vector<initial_distribution> take_initial() && noexcept { return std::move(initial_); }

 private:
  std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns, initial_distribution d) {
    initial_.push_back(d);
    return store_.add(std::move(name), kind, rows, columns, block_);
  }

  parameter_store& store_;
  std::vector<initial_distribution> initial_;
  int block_ = -1;
};

/// Gives every parameter its initial value, a function of (seed, segment, row) alone: the same on every machine and for any
/// number of threads.
inline void fill_initial(thread_pool& pool, parameter_store& store, std::span<const initial_distribution> initial,
                         std::uint64_t seed) {
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    float* values = store.value(i);
    pool.for_range(s.rows, 1, [&, d = initial[i]](index_range part) {
      for (std::int64_t row = part.begin; row < part.end; ++row) {
        rng random{seed, mix(i, static_cast<std::uint64_t>(row), 0x696E6974U)};
        for (std::int64_t j = 0; j < s.columns; ++j) {
          values[row * s.columns + j] = d.deviation == 0.0F ? d.mean : d.mean + d.deviation * random.normal();
        }
      }
    });
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_DECLARATION_HPP
