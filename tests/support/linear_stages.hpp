// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LINEAR_STAGES_HPP
#define CAUSEWAY_TESTS_SUPPORT_LINEAR_STAGES_HPP

// A model of linear blocks for pipelines that are held to a trace: block b makes x + x·M + c of its input, the loss of a
// token is half the square of what comes out, and what goes in is the token's row of a table that does not train. With
// joined ends that table trains, with a vector that is added to what comes out, as block 0. A reference in Python is thirty
// lines (tests/golden/traces/make_traces_pipelines.py), and compiles at once here.

#include <causeway/autograd/variable.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

class linear_stages {
 public:
  /// As the parameters begin: block after block, M by rows and then c; the table; and with joined ends the vector.
  struct numbers {
    std::int64_t width = 0;
    std::vector<float> start{};
    std::vector<float> table{};
    std::vector<float> head{};
    [[nodiscard]] bool joined_ends() const { return !head.empty(); }
    [[nodiscard]] std::int64_t blocks() const {
      return static_cast<std::int64_t>(start.size()) / (width * width + width) + (joined_ends() ? 1 : 0);
    }
  };
  struct tape_type {
    causeway::buffer_pool* memory = nullptr;
    std::vector<causeway::tensor> inputs;     // of every block of the pass, and what the last block of the model gave
    std::vector<causeway::tensor> gradients;  // of what blocks gave, last block first, until the weights' turn
    causeway::nn::block_range range;          // of linear blocks
    bool embeds = false, ends = false;
    std::vector<std::int32_t> tokens{};
    float scale = 0;
    [[nodiscard]] causeway::tensor make(causeway::dtype type, causeway::tensor_shape shape) const {
      return causeway::tensor::make(*memory, type, shape);
    }
    void clear() {
      inputs.clear();
      gradients.clear();
    }
  };

  linear_stages(std::shared_ptr<const numbers> n, causeway::nn::model_part part)
      : shared_{std::make_unique<shared>()}, numbers_{std::move(n)}, part_{std::move(part)} {
    declare();
  }

  causeway::parameter_store& parameters() { return store_; }
  [[nodiscard]] std::uint64_t config_hash() const { return static_cast<std::uint64_t>(blocks() * 1000 + width()); }
  causeway::kernels::cpu_backend& backend() { return shared_->backend; }
  [[nodiscard]] std::int64_t blocks() const { return numbers_->blocks(); }
  [[nodiscard]] std::int64_t width() const { return numbers_->width; }
  [[nodiscard]] const causeway::nn::model_part& part() const { return part_; }
  [[nodiscard]] std::size_t tied_table() const { return causeway::nn::not_held; }
  [[nodiscard]] bool shares_table() const { return false; }
  [[nodiscard]] bool joined_ends() const { return numbers_->joined_ends(); }
  [[nodiscard]] causeway::parameter_store declared_parameters() const {
    causeway::parameter_store all;
    for (std::int64_t b = 0; b < blocks(); ++b) declare(all, b);
    return all;
  }
  [[nodiscard]] std::int64_t block_length(std::int64_t block) const {
    causeway::parameter_store alone;
    declare(alone, block);
    return alone.length();
  }
  causeway::result<void> hold(causeway::nn::model_part part) {
    const std::vector<std::size_t> before = std::move(at_);
    causeway::parameter_store old = std::exchange(store_, {});
    part_ = std::move(part);
    declare();
    for (std::size_t b = 0; b < at_.size(); ++b) {
      if (at_[b] == causeway::nn::not_held || before[b] == causeway::nn::not_held) continue;
      for (const std::size_t i : {0U, 1U}) {
        std::copy_n(old.value(before[b] + i), old.segments()[before[b] + i].size(), store_.value(at_[b] + i));
      }
    }
    return {};
  }
  [[nodiscard]] tape_type make_tape() { return {&shared_->memory, {}, {}, {}}; }

  causeway::result<causeway::nn::stage_pass> forward_stage(tape_type& t, causeway::nn::block_range r,
                                                           const causeway::nn::micro_batch& b, causeway::tensor boundary,
                                                           causeway::nn::pass_kind kind) {
    const bool kept = kind == causeway::nn::pass_kind::recorded;
    causeway::nn::stage_pass s;
    const auto way = causeway::nn::stage_way::of(r, blocks(), joined_ends(), static_cast<bool>(boundary));
    const std::int64_t first = joined_ends() ? 1 : 0;
    t.range = {way.layers.first + first, way.layers.last + first}, t.embeds = way.embeds, t.ends = way.ends;
    t.scale = b.grad_scale;
    t.tokens.assign(b.inputs.begin(), b.inputs.end());
    causeway::tensor x = way.embeds ? embedded(t, b) : std::move(boundary);
    for (std::int64_t i = t.range.first; i < t.range.last; ++i) {
      causeway::tensor y = copied(t, x);
      add_product(y.span<float>(), x.span<float>(), matrix(i), 1, width());
      for (std::size_t k = 0; k < y.span<float>().size(); ++k) y.span<float>()[k] += vector(i)[k % columns()];
      if (kept) t.inputs.push_back(std::move(x));
      x = std::move(y);
    }
    if (!way.ends) {
      s.output.value = std::move(x);
      return s;
    }
    if (joined_ends()) {
      x = copied(t, x);
      for (std::size_t k = 0; k < x.span<float>().size(); ++k) x.span<float>()[k] += vector(0)[k % columns()];
    }
    for (const float v : x.span<float>()) s.loss += 0.5 * static_cast<double>(v) * static_cast<double>(v);
    if (kept) t.inputs.push_back(std::move(x));
    return s;
  }

  causeway::result<causeway::tensor> backward_stage(tape_type& t, const causeway::nn::stage_pass& s, causeway::tensor d) {
    auto in = backward_inputs(t, s, std::move(d));
    (void)backward_weights(t);
    return in;
  }

  causeway::result<causeway::tensor> backward_inputs(tape_type& t, const causeway::nn::stage_pass&, causeway::tensor d) {
    causeway::tensor g = copied(t, t.ends ? t.inputs.back() : d);
    if (t.ends) {
      for (float& v : g.span<float>()) v *= t.scale;
      t.inputs.pop_back();
      for (std::size_t e = 0; joined_ends() && e < g.span<float>().size(); ++e) {
        store_.gradient(at_[0] + 1)[e % columns()] += g.span<float>()[e];
      }
    }
    for (std::int64_t i = t.range.last; i-- > t.range.first;) {
      causeway::tensor in = copied(t, g);
      add_product(in.span<float>(), g.span<float>(), matrix(i), width(), 1);
      t.gradients.push_back(std::move(g));
      g = std::move(in);
    }
    if (!t.embeds) return g;
    for (std::size_t e = 0; joined_ends() && e < g.span<float>().size(); ++e) {
      const auto row = static_cast<std::size_t>(t.tokens[e / columns()]);
      store_.gradient(at_[0])[row * columns() + e % columns()] += g.span<float>()[e];
    }
    return causeway::tensor{};
  }

  causeway::result<void> backward_weights(tape_type& t) {
    for (std::size_t k = 0; k < t.gradients.size(); ++k) {
      const std::size_t i = t.gradients.size() - 1 - k;  // counted from the first block of the pass
      const std::size_t segment = at_[static_cast<std::size_t>(t.range.first) + i];
      const auto x = t.inputs[i].span<float>(), g = t.gradients[k].span<float>();
      for (std::size_t e = 0; e < g.size(); ++e) {
        for (std::size_t c = 0; c < columns(); ++c) {
          store_.gradient(segment)[c * columns() + e % columns()] += x[e / columns() * columns() + c] * g[e];
        }
        store_.gradient(segment + 1)[e % columns()] += g[e];
      }
    }
    t.clear();
    return {};
  }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                            std::int64_t batch, float scale, std::uint64_t stream) {
    tape_type t = make_tape();
    CAUSEWAY_ASSIGN(const auto pass, forward_stage(t, {0, blocks()}, {inputs, targets, batch, scale, stream}, {},
                                                   causeway::nn::pass_kind::recorded));
    CAUSEWAY_ASSIGN(const causeway::tensor none, backward_stage(t, pass, {}));
    (void)none;
    return pass.loss;
  }
  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                    std::int64_t batch) {
    tape_type t = make_tape();
    CAUSEWAY_ASSIGN(const auto pass, forward_stage(t, {0, blocks()}, {inputs, targets, batch, 0, 0}, {},
                                                   causeway::nn::pass_kind::evaluation));
    return pass.loss;
  }

 private:
  struct shared {
    causeway::kernels::cpu_backend backend{1};
    causeway::buffer_pool memory;
  };

  std::size_t declare(causeway::parameter_store& in, std::int64_t b) const {
    const std::string name = "block" + std::to_string(b);
    const bool ends = joined_ends() && b == 0;
    const std::int64_t rows = ends ? static_cast<std::int64_t>(numbers_->table.size()) / width() : width();
    const auto first = in.add(name + ".matrix", causeway::parameter_kind::matrix, rows, width(), static_cast<int>(b));
    in.add(name + ".vector", causeway::parameter_kind::vector, 1, width(), static_cast<int>(b));
    return first;
  }
  // The blocks of the part, as they begin.
  void declare() {
    at_.clear();
    for (std::int64_t b = 0; b < blocks(); ++b) {
      at_.push_back(part_.holds(b) ? declare(store_, b) : causeway::nn::not_held);
    }
    store_.allocate();
    const std::int64_t square = width() * width();
    for (std::int64_t b = 0; b < blocks(); ++b) {
      if (!part_.holds(b)) continue;
      if (joined_ends() && b == 0) {
        std::copy(numbers_->table.begin(), numbers_->table.end(), matrix(b));
        std::copy(numbers_->head.begin(), numbers_->head.end(), vector(b));
        continue;
      }
      const float* from = numbers_->start.data() + (b - (joined_ends() ? 1 : 0)) * (square + width());
      std::copy_n(from, square, matrix(b));
      std::copy_n(from + square, width(), vector(b));
    }
  }
  [[nodiscard]] std::size_t columns() const { return static_cast<std::size_t>(width()); }
  [[nodiscard]] float* matrix(std::int64_t b) { return store_.value(at_[static_cast<std::size_t>(b)]); }
  [[nodiscard]] float* vector(std::int64_t b) { return store_.value(at_[static_cast<std::size_t>(b)] + 1); }

  // out += x·M, or x·Mᵀ with the strides the other way round.
  void add_product(std::span<float> out, std::span<const float> x, const float* m, std::int64_t across, std::int64_t down) {
    for (std::size_t e = 0; e < out.size(); ++e) {
      const float* row = x.data() + e / columns() * columns();
      const float* column = m + static_cast<std::int64_t>(e % columns()) * across;
      for (std::int64_t k = 0; k < width(); ++k) out[e] += row[k] * column[k * down];
    }
  }
  static causeway::tensor copied(const tape_type& t, const causeway::tensor& x) {
    causeway::tensor y = t.make(causeway::dtype::f32, x.shape());
    std::copy(x.span<float>().begin(), x.span<float>().end(), y.span<float>().begin());
    return y;
  }
  [[nodiscard]] causeway::tensor embedded(const tape_type& t, const causeway::nn::micro_batch& b) {
    const float* const table = joined_ends() ? matrix(0) : numbers_->table.data();
    causeway::tensor x = t.make(causeway::dtype::f32, {static_cast<std::int64_t>(b.inputs.size()), width()});
    for (std::size_t k = 0; k < x.span<float>().size(); ++k) {
      const auto token = static_cast<std::size_t>(b.inputs[k / columns()]);
      x.span<float>()[k] = table[token * columns() + k % columns()];
    }
    return x;
  }

  std::unique_ptr<shared> shared_;
  std::shared_ptr<const numbers> numbers_;
  causeway::parameter_store store_;
  std::vector<std::size_t> at_;  // of each block: its matrix, with the vector behind it
  causeway::nn::model_part part_;
};
static_assert(causeway::Model<linear_stages>);

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LINEAR_STAGES_HPP
