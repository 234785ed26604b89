// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TEST_MODEL_HPP
#define CAUSEWAY_TESTS_SUPPORT_TEST_MODEL_HPP

// What the small models of the tests have in common. They differ in their parameters and in two functions, not in their
// type: a trainer takes a compiler half a second, and many policies train several of them.

#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace support {

class test_model {
 public:
  using tokens = std::span<const std::int32_t>;
  struct device {
    causeway::thread_pool pool_{1};
    causeway::thread_pool& pool() { return pool_; }
  };

  causeway::parameter_store& parameters() { return store_; }
  std::uint64_t config_hash() const { return store_.layout_hash(); }
  device& backend() { return *backend_; }

  causeway::result<double> forward_backward(tokens inputs, tokens, std::int64_t, float scale, std::uint64_t stream) {
    return train_(store_, inputs, scale, stream);
  }
  causeway::result<double> evaluate(tokens inputs, tokens, std::int64_t) { return evaluate_(store_, inputs); }

 protected:
  /// Adds `scale` times the gradients to those of the store, and gives the loss.
  using train_function =
      std::function<double(causeway::parameter_store&, tokens inputs, float scale, std::uint64_t stream)>;
  using loss_function = std::function<double(causeway::parameter_store&, tokens inputs)>;

  test_model(causeway::parameter_store store, train_function forward_backward, loss_function evaluate)
      : store_{std::move(store)}, train_{std::move(forward_backward)}, evaluate_{std::move(evaluate)} {}

 private:
  causeway::parameter_store store_;
  train_function train_;
  loss_function evaluate_;
  std::unique_ptr<device> backend_ = std::make_unique<device>();
};
static_assert(causeway::Model<test_model>);

/// As what a trainer takes an M. A model that is nothing more than its test_model says `using self = its own name`.
template <class M>
struct how_trained {
  using type = M;
};
template <class M>
  requires std::same_as<typename M::self, M>
struct how_trained<M> {
  using type = test_model;
};
template <class M>
using trained_as = typename how_trained<M>::type;

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TEST_MODEL_HPP
