// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_PASS_HPP
#define CAUSEWAY_NN_PASS_HPP

// What a model family sees while it computes: the tape, its parameters, the sizes of this batch. Passed by value into
// blocks that may be computed again, so it is small and changes nothing.

#include <causeway/autograd/low_rank.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/kernels/decode.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/key_value_cache.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// What a pass through a stage is for.
enum class pass_kind : std::uint8_t {
  recorded,    ///< training: a backward follows
  forgetful,   ///< training with the same dropout, but nothing is kept
  evaluation,  ///< no dropout, nothing is kept
};

/// One micro-batch on its way through one stage, between its forward and its backward.
struct stage_pass {
  autograd::variable input;   ///< what came from the stage before; empty in the first
  autograd::variable output;  ///< what the next stage gets, [batch·T, width] f32; empty in the last
  double loss = 0.0;          ///< the sum of token losses, in the last stage
};

/// One forward (and backward) computation over `batch` sequences of `T` tokens.
template <class Backend>
struct pass {
  parameter_store* store = nullptr;
  const bf16* low = nullptr;  ///< bf16 copies, laid out as the store; null in f32 mode
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::uint64_t dropout_stream = 0;
  float dropout = 0.0F;                      ///< 0 outside training
  const block_adapters* adapters = nullptr;  ///< of the block that is computed; null: none
  key_value_cache* past = nullptr;           ///< the tokens before these, in memory of the host; null: there are none

  /// The type of operands of products.
  [[nodiscard]] dtype type() const noexcept { return low != nullptr ? dtype::bf16 : dtype::f32; }

  [[nodiscard]] autograd::parameter operator[](std::size_t segment) const noexcept {
    const auto& s = store->segments()[segment];
    return {store->value(segment), low != nullptr ? low + s.offset : nullptr, store->gradient(segment), s.rows, s.columns};
  }

  /// The rows of a table of positions from the first token of this pass on.
  [[nodiscard]] autograd::parameter positions(std::size_t segment) const noexcept {
    autograd::parameter table = (*this)[segment];
    if (past != nullptr) table.value += past->length() * table.columns;
    return table;
  }

  /// Queries and keys, rotated to the positions of their tokens.
  [[nodiscard]] autograd::variable rotated(autograd::tape<Backend>& t, autograd::variable qkv,
                                           const kernels::rotary_table& table, const autograd::head_layout& l) const {
    if (past == nullptr || past->length() == 0) return autograd::rotary(t, std::move(qkv), table, l);
    tensor y = t.exclusive(std::move(qkv.value));
    autograd::detail::with_activation_type(y.type(), [&]<class Act>() {
      kernels::rotary_turn(table, y.template data<Act>(), l.heads + l.kv_heads, past->length());
    });
    return {std::move(y)};
  }

  /// Attention of block i to these tokens and those before them, of which the cache keeps keys and values.
  [[nodiscard]] autograd::variable attended(autograd::tape<Backend>& t, const autograd::variable& qkv,
                                            const autograd::head_layout& l, std::size_t i) const {
    if (past == nullptr) return autograd::attention(t, qkv, l);
    const std::int64_t queries = l.heads * l.head_size, values = l.kv_heads * l.head_size;
    return autograd::detail::with_activation_type(qkv.value.type(), [&]<class Act>() -> autograd::variable {
      const Act* const row = qkv.value.template data<Act>();
      past->keep(i, row + queries, T, l.row(), 2 * values);
      if (past->length() == 0) return autograd::attention(t, qkv, l);
      tensor o = t.make(qkv.value.type(), {1, queries});
      auto shape = autograd::detail::attention_shape_of(l);
      shape.k_stride = shape.v_stride = 2 * values;
      const Act* const kept = past->template rows<Act>(i);
      kernels::decode_attention(t.backend().pool(), shape, row, kept, kept + values, past->length() + 1,
                                o.template data<Act>());
      return {std::move(o)};
    });
  }

  /// x after dropout. `place` tells the places of one model apart, so that no two share a mask.
  [[nodiscard]] autograd::variable drop(autograd::tape<Backend>& t, autograd::variable x, std::uint64_t place) const {
    return autograd::dropout(t, std::move(x), dropout, dropout_stream, place);
  }

  [[nodiscard]] bool adapts(linear_map map) const noexcept { return adapters != nullptr && (*adapters)[map].down; }

  /// y, which a linear map made of x and whose columns from `column` on are `map`'s, with what its adapter adds. Works in
  /// place: move y in.
  [[nodiscard]] autograd::variable adapted(autograd::tape<Backend>& t, autograd::variable y, const autograd::variable& x,
                                           linear_map map, std::int64_t column = 0) const {
    if (!adapts(map)) return y;
    const auto& [down, up] = (*adapters)[map];
    return autograd::add_low_rank(t, std::move(y), x, down, up, column);
  }

  /// So with queries, keys and values that are packed in a row.
  [[nodiscard]] autograd::variable adapted_attention(autograd::tape<Backend>& t, autograd::variable qkv,
                                                     const autograd::variable& x,
                                                     const autograd::head_layout& layout) const {
    const std::int64_t key = layout.heads * layout.head_size, value = key + layout.kv_heads * layout.head_size;
    qkv = adapted(t, std::move(qkv), x, linear_map::query);
    qkv = adapted(t, std::move(qkv), x, linear_map::key, key);
    return adapted(t, std::move(qkv), x, linear_map::value, value);
  }

  /// residual + dropout(x·Wᵀ + b), with what the adapter of `map` adds. Without dropout the sum is part of the product.
  [[nodiscard]] autograd::variable add_linear(autograd::tape<Backend>& t, const autograd::variable& residual,
                                              const autograd::variable& x, const autograd::parameter& weight,
                                              const autograd::parameter& bias, linear_map map, std::uint64_t place) const {
    if (dropout <= 0.0F) return adapted(t, autograd::linear_to_residual(t, x, weight, bias, residual), x, map);
    auto added = adapted(t, autograd::linear_to_residual(t, x, weight, bias), x, map);
    return autograd::add(t, residual, drop(t, std::move(added), place));
  }
};

/// Bytes that one micro-batch keeps, as a family counts them; the model adds what all families share.
struct activation_bytes {
  std::size_t block = 0;      ///< kept by one block between its forward and its backward
  std::size_t transient = 0;  ///< the largest gradient inside a block for which no memory of its size was freed before
};

/// What a [rows, columns] activation takes from the pool.
[[nodiscard]] constexpr std::size_t pooled_bytes(std::int64_t rows, std::int64_t columns, std::size_t each) noexcept {
  return buffer_pool::rounded(static_cast<std::size_t>(rows * columns) * each);
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_PASS_HPP
