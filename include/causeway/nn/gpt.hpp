// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_GPT_HPP
#define CAUSEWAY_NN_GPT_HPP

// The GPT-2 family (Radford et al. 2019): learned positions, layer norm before each part, biases, GELU in its tanh form,
// output layer tied to the token table. Parameter names are Hugging Face's; weights are stored [outputs, inputs], which is
// the transpose of what its Conv1D keeps.

#include <causeway/autograd/ops.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// The defaults are GPT-2 small (124 M parameters).
struct gpt_options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;
  std::int64_t vocabulary = 50257;
  std::int64_t mlp_ratio = 4;  ///< hidden size of the feed-forward part over width
  float dropout = 0.0F;        ///< after the embedding and after both parts of a block; none on attention weights
  float epsilon = 1e-5F;
  bool tie = true;  ///< the output layer is the token table
  nn::precision precision = nn::precision::f32;
  bool recompute = false;    ///< keep only the input of each block: a third more compute, a fraction of the activations
  bool joined_ends = false;  ///< embedding and output layer are one block, the first; see language_model::forward_stage
};

/// GPT-2 as `language_model` uses it: which parameters, which computation.
class gpt_family {
 public:
  using options_type = gpt_options;
  static constexpr std::string_view name = "gpt2";

  CAUSEWAY_DECL [[nodiscard]] static result<void> validate(const gpt_options& o);

  /// The linear maps of a block.
  CAUSEWAY_DECL [[nodiscard]] static map_sizes maps(const gpt_options& o) noexcept;

  /// Declares the parameters of `part` in `store`, which is empty and outlives the family.
  CAUSEWAY_DECL gpt_family(const gpt_options& o, parameter_store& store, const model_part& part = {});

  [[nodiscard]] const gpt_options& options() const noexcept { return options_; }
  [[nodiscard]] float dropout() const noexcept { return options_.dropout; }
  [[nodiscard]] std::span<const initial_distribution> initial() const noexcept { return initial_; }
  /// The segment of the output layer, [vocabulary, width].
  [[nodiscard]] std::size_t head() const noexcept { return head_; }
  /// The segment of a table that is embedding and output layer in two blocks; `not_held` where there is none here.
  [[nodiscard]] std::size_t tied() const noexcept { return options_.tie && !options_.joined_ends ? tokens_ : not_held; }

  /// The segments that make the residual stream of tokens; `not_held` where they are not here.
  [[nodiscard]] embedding_tables embedding() const noexcept { return {tokens_, positions_}; }

  CAUSEWAY_DECL void hash_into(hasher& h) const noexcept;

  /// Tokens to the residual stream, [batch·T, width].
  template <class Backend>
  [[nodiscard]] autograd::variable embed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                         std::span<const std::int32_t> tokens) const {
    return p.drop(t, autograd::embedding(t, tokens, p[tokens_], p.positions(positions_), p.batch), 0);
  }

  /// Block i on the residual stream: x += attention(norm(x)), then x += mlp(norm(x)).
  template <class Backend>
  [[nodiscard]] autograd::variable block(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t i,
                                         const autograd::variable& x) const {
    const block_segments& b = blocks_[i];
    const autograd::head_layout layout{p.batch, p.T, options_.heads, options_.heads, options_.width / options_.heads};
    const auto qkv = packed(t, p, b, norm(t, p, b.norm1, x), layout);
    const auto x1 = p.add_linear(t, x, p.attended(t, qkv, layout, i), p[b.projection], p[b.projection + 1],
                                 linear_map::output, 2 * i + 1);
    const auto y = norm(t, p, b.norm2, x1);
    const auto residual = p.dropout > 0.0F ? autograd::variable{} : x1;
    const auto z = feed_forward(t, p, b, y, residual);
    return p.dropout > 0.0F ? autograd::add(t, x1, p.drop(t, z, 2 * i + 2)) : z;
  }

  /// What the output layer multiplies.
  template <class Backend>
  [[nodiscard]] autograd::variable finish(autograd::tape<Backend>& t, const pass<Backend>& p,
                                          const autograd::variable& x) const {
    return norm(t, p, final_norm_, x);
  }

  /// What a block keeps for `rows` tokens in operands of `size` bytes.
  CAUSEWAY_DECL [[nodiscard]] activation_bytes activations(std::int64_t rows, std::size_t size) const noexcept;

 private:
  // A linear map or a norm takes two segments: weight, bias.
  struct block_segments {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, up = 0, down = 0;
  };

  CAUSEWAY_DECL void declare_block(declaration& d, std::int64_t i);
  CAUSEWAY_DECL void declare_output(declaration& d);
  CAUSEWAY_DECL std::size_t declare_norm(declaration& d, const std::string& prefix) const;
  CAUSEWAY_DECL static std::size_t declare_linear(declaration& d, const std::string& prefix, std::int64_t outputs,
                                                  std::int64_t inputs, float deviation);

  /// Queries, keys and values.
  template <class Backend>
  [[nodiscard]] static autograd::variable packed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                                 const block_segments& b, const autograd::variable& x,
                                                 const autograd::head_layout& layout) {
    return p.adapted_attention(t, autograd::linear(t, x, p[b.qkv], p[b.qkv + 1]), x, layout);
  }

  /// With adapters the parts are not fused: what GELU is applied to must be whole before.
  template <class Backend>
  [[nodiscard]] static autograd::variable feed_forward(autograd::tape<Backend>& t, const pass<Backend>& p,
                                                       const block_segments& b, const autograd::variable& x,
                                                       const autograd::variable& residual) {
    if (!p.adapts(linear_map::up) && !p.adapts(linear_map::down)) {
      return autograd::feed_forward(t, x, p[b.up], p[b.up + 1], p[b.down], p[b.down + 1], residual);
    }
    const auto before = p.adapted(t, autograd::linear(t, x, p[b.up], p[b.up + 1]), x, linear_map::up);
    const auto hidden = autograd::gelu(t, before);
    auto y = autograd::linear_to_residual(t, hidden, p[b.down], p[b.down + 1], residual);
    return p.adapted(t, std::move(y), hidden, linear_map::down);
  }

  template <class Backend>
  [[nodiscard]] autograd::variable norm(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t segment,
                                        const autograd::variable& x) const {
    return autograd::layer_norm(t, x, p[segment], p[segment + 1], options_.epsilon, p.type());
  }

  gpt_options options_;
  std::vector<initial_distribution> initial_;
  std::vector<block_segments> blocks_;
  std::size_t tokens_ = 0;
  std::size_t positions_ = 0;
  std::size_t final_norm_ = 0;
  std::size_t head_ = 0;
};

template <class Backend = kernels::cpu_backend>
using basic_gpt = language_model<gpt_family, Backend>;

/// GPT-2 on the CPU.
using gpt = basic_gpt<>;

#ifdef CAUSEWAY_COMPILED
extern template class language_model<gpt_family>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/gpt.ipp>
#endif

#endif  // CAUSEWAY_NN_GPT_HPP
