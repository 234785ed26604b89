// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_FROZEN_BLOCKS_HPP
#define CAUSEWAY_STAGE_FROZEN_BLOCKS_HPP

// Blocks of a pre-trained model that are computed for others and never change (Petals: Borzunov et al., 2022). Nothing is
// remembered between a forward and its backward: a backward brings the input along and computes the forward again. What is
// tuned of each block, prompts and adapters, comes with the request, and its gradients go back with the answer.

#include <causeway/autograd/prompts.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Fills frozen parameters from where they are kept: a file, an archive, another model. Segments have the names of the
/// whole model's.
using parameter_source = std::function<result<void>(parameter_store&)>;

/// What is to be computed: `sequences` of `tokens` rows each.
struct span_pass {
  nn::block_range blocks{};
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;
  nn::block_tuning tuning{};
  std::span<const float> x{};      ///< [sequences·tokens, width]
  std::span<const float> tuned{};  ///< [blocks, tuning.values]

  [[nodiscard]] std::int64_t rows() const noexcept { return sequences * tokens; }
};

/// - `hold(range)`: from now on these blocks are here; on an error, what was.
/// - `forward(pass, y)`; `backward(pass, dy, dx, d_tuned)`: the gradients of x and of pass.tuned where dy is that of y.
///   Blocks of the pass are held; sizes fit. Equal passes give equal bits.
/// - `maps()`: the linear maps of a block.
/// - `agreement()`: equal where blocks mean the same.
template <class B>
concept BlockSpan = Movable<B> &&
    requires(B& b, const B& fixed, nn::block_range r, const span_pass& p, std::span<const float> in, std::span<float> out) {
  { fixed.layers() } -> ConvertibleTo<std::int64_t>;
  { fixed.width() } -> ConvertibleTo<std::int64_t>;
  { fixed.context() } -> ConvertibleTo<std::int64_t>;
  { fixed.maps() } -> std::same_as<nn::map_sizes>;
  { fixed.held() } -> std::same_as<nn::block_range>;
  { fixed.agreement() } -> ConvertibleTo<std::uint64_t>;
  { b.hold(r) } -> std::same_as<result<void>>;
  { b.forward(p, out) } -> std::same_as<result<void>>;
  { b.backward(p, in, out, out) } -> std::same_as<result<void>>;
  { b.pool() } -> std::same_as<thread_pool&>;
};

/// Of a model's shape: equal on peers whose parameters mean the same.
template <class Family>
[[nodiscard]] std::uint64_t family_agreement(const typename Family::options_type& options) {
  parameter_store whole;
  const Family declared{options, whole};
  hasher h;
  h.add_value(hash_text(Family::name));
  declared.hash_into(h);
  return h.add_value(whole.layout_hash()).finish();
}

/// Blocks of a nn::gpt_family or nn::llama_family in f32, without dropout. Memory: 4 bytes a parameter; in a backward the
/// activations of the pass. One thread at a time.
template <class Family>
class frozen_blocks {
 public:
  using options_type = typename Family::options_type;

  /// Holds nothing yet. errc::invalid_argument for sizes that cannot work.
  static result<frozen_blocks> create(const options_type& options, parameter_source source, unsigned threads = 1) {
    CAUSEWAY_TRY(Family::validate(options));
    if (options.precision != nn::precision::f32) {
      return fail(errc::invalid_argument, "frozen_blocks", "they compute in f32; set precision to f32");
    }
    return frozen_blocks{options, std::move(source), threads};
  }

  [[nodiscard]] std::int64_t layers() const noexcept { return options_.layers; }
  [[nodiscard]] std::int64_t width() const noexcept { return options_.width; }
  [[nodiscard]] std::int64_t context() const noexcept { return options_.context; }
  [[nodiscard]] nn::map_sizes maps() const noexcept { return Family::maps(options_); }
  [[nodiscard]] nn::block_range held() const noexcept { return range_; }
  [[nodiscard]] std::uint64_t agreement() const { return family_agreement<Family>(options_); }
  [[nodiscard]] thread_pool& pool() noexcept { return engine_->backend.pool(); }
  /// Precondition: something is held.
  [[nodiscard]] parameter_store& parameters() noexcept { return held_->store; }

  /// Reads other blocks from the source. Both spans are in memory at once.
  result<void> hold(nn::block_range range) {
    const nn::model_part part = nn::model_part::blocks_alone(range);
    CAUSEWAY_TRY(part.check(layers()));
    try {
      auto fresh = std::make_unique<holding>(options_, part);
      CAUSEWAY_TRY(source_(fresh->store));
      held_ = std::move(fresh);
    } catch (const std::bad_alloc&) {
      return fail(errc::out_of_memory, "frozen_blocks", "no memory for blocks " + nn::model_part::text(range));
    }
    range_ = range;
    return {};
  }

  result<void> forward(const span_pass& p, std::span<float> y) {
    return guarded([&](tape_type& t) {
      const autograd::recording_scope scope{t, false};
      const tensor out = run(t, p, {input(p)}, nullptr).value;
      std::copy_n(out.data<float>(), y.size(), y.begin());
    });
  }

  result<void> backward(const span_pass& p, std::span<const float> dy, std::span<float> dx, std::span<float> d_tuned) {
    CAUSEWAY_EXPECT(d_tuned.size() == p.tuned.size());
    std::fill(d_tuned.begin(), d_tuned.end(), 0.0F);
    return guarded([&](tape_type& t) {
      const auto in = t.leaf(input(p));
      const auto out = run(t, p, in, d_tuned.data());
      tensor gradient = t.make(dtype::f32, out.value.shape());
      std::copy(dy.begin(), dy.end(), gradient.data<float>());
      t.contribute(out.slot, std::move(gradient));
      t.backward();
      const tensor d_input = t.take(in.slot);
      std::copy_n(d_input.data<float>(), dx.size(), dx.begin());
    });
  }

 private:
  using backend_type = kernels::cpu_backend;
  using tape_type = autograd::tape<backend_type>;

  struct engine {
    explicit engine(unsigned threads) : backend{threads} {}
    backend_type backend;
    buffer_pool memory;
    tape_type tape{backend, memory};
  };
  struct holding {
    holding(const options_type& options, const nn::model_part& part) : family{options, store, part} {
      store.allocate_values();
    }
    parameter_store store;
    Family family;
  };

  frozen_blocks(const options_type& options, parameter_source source, unsigned threads)
      : options_{options}, source_{std::move(source)}, engine_{std::make_unique<engine>(threads)} {}

  [[nodiscard]] tensor input(const span_pass& p) const {
    CAUSEWAY_EXPECT(std::ssize(p.x) == p.rows() * width());
    tensor values = engine_->tape.make(dtype::f32, {p.rows(), width()});
    std::copy(p.x.begin(), p.x.end(), values.data<float>());
    return values;
  }

  [[nodiscard]] autograd::variable run(tape_type& t, const span_pass& p, autograd::variable x, float* d_tuned) const {
    CAUSEWAY_EXPECT(p.blocks.first >= range_.first && p.blocks.last <= range_.last && p.blocks.size() > 0);
    const std::int64_t each = p.tuning.values(width(), maps());
    CAUSEWAY_EXPECT(std::ssize(p.tuned) == p.blocks.size() * each);
    for (std::int64_t i = p.blocks.first; i < p.blocks.last; ++i) {
      const std::int64_t place = (i - p.blocks.first) * each;
      x = block(t, p, i, x, p.tuned.data() + place, d_tuned == nullptr ? nullptr : d_tuned + place);
    }
    return x;
  }

  /// With its prompts, then its adapters, at `tuned`.
  [[nodiscard]] autograd::variable block(tape_type& t, const span_pass& p, std::int64_t i, autograd::variable x,
                                         const float* tuned, float* d_tuned) const {
    const autograd::parameter prompts{tuned, nullptr, d_tuned, p.tuning.prompts, width()};
    if (prompts.rows > 0) x = autograd::add_prompts(t, x, prompts, p.sequences);
    const std::int64_t before = prompts.rows * width();
    const nn::block_adapters adapters =
        nn::adapters_at(p.tuning.adapters, maps(), tuned + before, d_tuned == nullptr ? nullptr : d_tuned + before);
    nn::pass<backend_type> pass{&held_->store, nullptr, p.sequences, p.tokens, 0, 0.0F};
    if (p.tuning.adapters.rank > 0) pass.adapters = &adapters;
    return held_->family.block(t, pass, static_cast<std::size_t>(i), x);
  }

  template <class F>
  result<void> guarded(F&& f) {
    try {
      f(engine_->tape);
      engine_->tape.clear();
      return {};
    } catch (const std::bad_alloc&) {
      engine_->tape.clear();
      return fail(errc::out_of_memory, "frozen_blocks", "no memory for the activations: allow fewer rows in a request");
    }
  }

  options_type options_;
  parameter_source source_;
  nn::block_range range_{};
  std::unique_ptr<engine> engine_;
  std::unique_ptr<holding> held_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_FROZEN_BLOCKS_HPP
