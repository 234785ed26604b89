// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP
#define CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP

// A model whose training can be worked out on paper: every token t pulls the parameters toward a centre c(t), so the loss
// of a token is ½‖θ − c(t)‖² and the gradient θ − c(t). Centres lie on a coarse dyadic grid, so small cases are exact in
// f32.

#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace support {

class quadratic {
 public:
  explicit quadratic(std::int64_t size = 37, std::uint64_t seed = 1) : size_{size}, backend_{std::make_unique<device>()} {
    segment_ = store_.add("theta", causeway::parameter_kind::vector, 1, size);
    store_.allocate();
    causeway::rng random{seed};
    for (std::int64_t i = 0; i < size; ++i) store_.value(segment_)[i] = static_cast<float>(random.below(64)) / 16.0F;
  }

  /// Component i of the centre of token t: a multiple of 1/8 in [-4, 4).
  static float centre(std::int32_t t, std::int64_t i) {
    return static_cast<float>(causeway::mix(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(i)) % 64) / 8.0F -
           4.0F;
  }

  causeway::parameter_store& parameters() { return store_; }
  std::uint64_t config_hash() const { return static_cast<std::uint64_t>(size_); }

  struct device {
    causeway::thread_pool pool_{1};
    causeway::thread_pool& pool() { return pool_; }
  };
  device& backend() { return *backend_; }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                                            std::int64_t, float scale, std::uint64_t) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = centres(t);
      for (std::int64_t i = 0; i < size_; ++i) {
        const float pull = store_.value(segment_)[i] - middle[i];
        store_.gradient(segment_)[i] += scale * pull;
        loss += 0.5 * static_cast<double>(pull) * static_cast<double>(pull);
      }
    }
    return loss;
  }

  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t>, std::int64_t) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = centres(t);
      for (std::int64_t i = 0; i < size_; ++i) {
        const double pull = static_cast<double>(store_.value(segment_)[i]) - static_cast<double>(middle[i]);
        loss += 0.5 * pull * pull;
      }
    }
    return loss;
  }

 private:
  /// The centre of a token, worked out once: a run asks for each many times.
  const float* centres(std::int32_t t) {
    thread_local std::map<std::int32_t, std::vector<float>> made;
    auto& here = made[t];
    for (auto i = static_cast<std::int64_t>(here.size()); i < size_; ++i) here.push_back(centre(t, i));
    return here.data();
  }

  std::int64_t size_;
  std::size_t segment_ = 0;
  causeway::parameter_store store_;
  std::unique_ptr<device> backend_;
};
static_assert(causeway::Model<quadratic>);

/// The tokens that peer p trains on in step s: `count` of them, different for every (seed, peer, step).
inline std::vector<std::int32_t> tokens_of(std::uint32_t peer, std::uint64_t step, std::size_t count = 4) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<std::int32_t>(causeway::mix(peer + 1, step + 1, i) % 1000);
  return tokens;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP
