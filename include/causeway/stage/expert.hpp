// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_EXPERT_HPP
#define CAUSEWAY_STAGE_EXPERT_HPP

// An expert of a mixture that is trained where it lies (Learning@home: Ryabinin and Gusev, NeurIPS 2020): a backward moves
// its parameters at once, with its own optimizer, whoever asked and however old the forward is. It remembers no forward: a
// backward brings the input along and computes it again.

#include <causeway/autograd/linear.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Rows are [rows, width]. `forward(x, y)`: y = f(x). `backward(x, dy, dx)`: dx, the gradient of the loss by x where dy is
/// that by f(x), with the parameters as they are now; then moves them. On an error nothing moved.
template <class E>
concept Expert = Movable<E> && requires(E& e, std::span<const float> in, std::span<float> out) {
  { e.width() } -> ConvertibleTo<std::int64_t>;
  { e.forward(in, out) } -> std::same_as<result<void>>;
  { e.backward(in, in, out) } -> std::same_as<result<void>>;
};

struct feed_forward_options {
  std::int64_t width = 0;
  std::int64_t hidden = 0;
  float learning_rate = 1e-3F;
  float clip_norm = 1.0F;  ///< of each backward's gradient; 0: none
  std::uint64_t seed = 0;  ///< another one for each expert
};

/// f(x) = W2·gelu(W1·x + b1) + b2, moved by Optimizer. One thread at a time.
template <optim::Optimizer Optimizer = optim::adamw>
class feed_forward_expert {
 public:
  explicit feed_forward_expert(const feed_forward_options& options, Optimizer optimizer = Optimizer{}, unsigned threads = 1)
      : options_{options}, engine_{std::make_unique<engine>(options, std::move(optimizer), threads)} {}

  [[nodiscard]] std::int64_t width() const noexcept { return options_.width; }
  [[nodiscard]] parameter_store& parameters() noexcept { return engine_->store; }
  /// Backwards so far.
  [[nodiscard]] std::uint64_t updates() const noexcept { return updates_; }

  result<void> forward(std::span<const float> x, std::span<float> y) {
    tape_type& t = engine_->tape;
    const autograd::recording_scope scope{t, false};
    const tensor out = compute(t, input(x)).value;
    std::copy_n(out.data<float>(), y.size(), y.begin());
    return {};
  }

  result<void> backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
    tape_type& t = engine_->tape;
    parameter_store& store = engine_->store;
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    const auto in = t.leaf(input(x).value);
    const auto out = compute(t, in);
    tensor gradient = t.make(dtype::f32, out.value.shape());
    std::copy(dy.begin(), dy.end(), gradient.data<float>());
    t.contribute(out.slot, std::move(gradient));
    t.backward();
    const tensor d_input = t.take(in.slot);
    std::copy_n(d_input.data<float>(), dx.size(), dx.begin());
    t.clear();
    return update();
  }

  void serialize(auto& ar) {
    const auto held = engine_->store.values();
    std::vector<float> values{held.begin(), held.end()};
    ar(values, engine_->optimizer, updates_);
    std::copy_n(values.begin(), std::min(values.size(), held.size()), held.begin());
  }

 private:
  using tape_type = autograd::tape<kernels::cpu_backend>;

  struct engine {
    engine(const feed_forward_options& o, Optimizer given, unsigned threads)
        : backend{threads}, optimizer{std::move(given)} {
      store.add("up.weight", parameter_kind::matrix, o.hidden, o.width);
      store.add("up.bias", parameter_kind::vector, 1, o.hidden);
      store.add("down.weight", parameter_kind::matrix, o.width, o.hidden);
      store.add("down.bias", parameter_kind::vector, 1, o.width);
      store.allocate();
      for (const std::size_t s : {std::size_t{0}, std::size_t{2}}) {
        const parameter_segment& matrix = store.segments()[s];
        rng draw{o.seed, s};
        const float deviation = 1.0F / std::sqrt(static_cast<float>(matrix.columns));
        for (std::int64_t i = 0; i < matrix.size(); ++i) store.value(s)[i] = deviation * draw.normal();
      }
      optimizer.reset(store.length());
    }
    [[nodiscard]] autograd::parameter at(std::size_t segment) {
      const parameter_segment& s = store.segments()[segment];
      return {store.value(segment), nullptr, store.gradient(segment), s.rows, s.columns};
    }
    kernels::cpu_backend backend;
    Optimizer optimizer;
    parameter_store store;
    buffer_pool memory;
    tape_type tape{backend, memory};
  };

  [[nodiscard]] autograd::variable input(std::span<const float> x) {
    CAUSEWAY_EXPECT(static_cast<std::int64_t>(x.size()) % options_.width == 0);
    tensor values = engine_->tape.make(dtype::f32, {static_cast<std::int64_t>(x.size()) / options_.width, options_.width});
    std::copy(x.begin(), x.end(), values.data<float>());
    return {std::move(values)};
  }
  [[nodiscard]] autograd::variable compute(tape_type& t, const autograd::variable& x) {
    engine& e = *engine_;
    return autograd::feed_forward(t, x, e.at(0), e.at(1), e.at(2), e.at(3));
  }

  result<void> update() {
    engine& e = *engine_;
    const float norm = optim::global_norm(e.backend.pool(), e.store.gradients());
    CAUSEWAY_TRY(optim::check_norm(norm, "expert"));
    e.optimizer.step(
        e.backend.pool(), e.store.view(),
        {.learning_rate = options_.learning_rate, .gradient_scale = optim::clip_scale(norm, options_.clip_norm)});
    ++updates_;
    return {};
  }

  feed_forward_options options_;
  std::unique_ptr<engine> engine_;
  std::uint64_t updates_ = 0;
};
static_assert(Expert<feed_forward_expert<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_EXPERT_HPP
