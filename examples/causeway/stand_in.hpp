// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_STAND_IN_HPP
#define CAUSEWAY_EXAMPLES_STAND_IN_HPP

// A model for simulations of hundreds of peers, where the cost of computing counts and not what is computed: each sequence
// pulls the parameters toward a centre that its first token names. Its loss has a minimum, so wrong arithmetic shows.

#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace app {

/// The loss of every token of a sequence that begins with t is |θ − c(t)|² / 2n for n parameters.
class stand_in {
 public:
  /// `blocks`: for policies that take a model apart; each has an equal share of the values, and so has what is in no block.
  stand_in(std::int64_t size, std::int64_t blocks) : size_{size}, backend_{std::make_unique<device>()} {
    const std::int64_t share = size / (blocks + 1) / unpadded * unpadded;
    if (share == 0) blocks = 0;
    for (std::int64_t b = 0; b < blocks; ++b) add(share, b - 1);
    add(size - blocks * share, blocks - 1);
    store_.allocate();
    for (std::int64_t i = 0; i < size; ++i) store_.value(0)[i] = 2.0F;
  }

  struct device {
    causeway::thread_pool threads{1};
    causeway::thread_pool& pool() { return threads; }
  };

  causeway::parameter_store& parameters() { return store_; }
  device& backend() { return *backend_; }
  [[nodiscard]] std::uint64_t config_hash() const { return static_cast<std::uint64_t>(size_); }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                                            std::int64_t sequences, float scale, std::uint64_t) {
    float* const gradient = store_.gradient(0);
    return sum_over(inputs, sequences, [&](std::int64_t i, float pull, float tokens) {
      gradient[i] += scale * tokens * pull / static_cast<float>(size_);
    });
  }

  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                                    std::int64_t sequences) {
    return sum_over(inputs, sequences, [](std::int64_t, float, float) {});
  }

 private:
  static constexpr std::int64_t unpadded = 16;  // segments of so many values follow one another without a gap

  void add(std::int64_t length, std::int64_t block) {
    store_.add("theta." + std::to_string(block + 1), causeway::parameter_kind::vector, 1, length, static_cast<int>(block));
  }

  // In [-1, 1), spread evenly over the parameters; `key` is a draw of the token's. In a simulation of hundreds of peers
  // this is most of what they compute, so it is two operations and no draw for each.
  static float centre(std::uint64_t key, std::int64_t i) {
    const std::uint64_t place = key + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U;
    return static_cast<float>(static_cast<std::int32_t>(place >> 56U)) / 128.0F - 1.0F;
  }

  template <class F>
  double sum_over(std::span<const std::int32_t> inputs, std::int64_t sequences, F&& f) {
    const auto length = inputs.size() / static_cast<std::size_t>(sequences);
    const float* const theta = store_.value(0);
    double sum = 0;
    for (std::size_t at = 0; at < inputs.size(); at += length) {
      const std::uint64_t key = causeway::mix(static_cast<std::uint64_t>(inputs[at]));
      double squares = 0;
      for (std::int64_t i = 0; i < size_; ++i) {
        const float pull = theta[i] - centre(key, i);
        f(i, pull, static_cast<float>(length));
        squares += static_cast<double>(pull * pull);
      }
      sum += static_cast<double>(length) * squares / (2.0 * static_cast<double>(size_));
    }
    return sum;
  }

  std::int64_t size_;
  causeway::parameter_store store_;
  std::unique_ptr<device> backend_;
};
static_assert(causeway::Model<stand_in>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_STAND_IN_HPP
