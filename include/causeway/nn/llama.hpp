// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_LLAMA_HPP
#define CAUSEWAY_NN_LLAMA_HPP

// The Llama family (Touvron et al. 2023): RMS norm, rotary positions in Hugging Face's half-rotation layout, grouped-query
// attention, SwiGLU, no biases. Names follow Hugging Face; q, k and v are one matrix (rows q, then k, then v), and so are
// gate and up, because one large product beats three small ones.

#include <causeway/autograd/ops.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/rotary.hpp>
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

/// The defaults make a model of GPT-2 small's size.
struct llama_options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 4;  ///< heads that share keys and values; `heads` for plain multi-head attention
  std::int64_t width = 768;
  std::int64_t hidden = 2048;  ///< of the feed-forward part
  std::int64_t context = 1024;
  std::int64_t vocabulary = 32000;
  float theta = 10000.0F;  ///< base of the rotary wavelengths
  kernels::rotary_scaling scaling{};
  float epsilon = 1e-5F;
  bool tie = false;  ///< the output layer is the token table
  nn::precision precision = nn::precision::f32;
  bool recompute = false;    ///< keep only the input of each block: a third more compute, a fraction of the activations
  bool joined_ends = false;  ///< embedding and output layer are one block, the first; see language_model::forward_stage
};

/// Llama as `language_model` uses it: which parameters, which computation.
class llama_family {
 public:
  using options_type = llama_options;
  static constexpr std::string_view name = "llama";

  CAUSEWAY_DECL [[nodiscard]] static result<void> validate(const llama_options& o);

  /// The linear maps of a block.
  CAUSEWAY_DECL [[nodiscard]] static map_sizes maps(const llama_options& o) noexcept;

  /// Declares the parameters of `part` in `store`, which is empty and outlives the family.
  CAUSEWAY_DECL llama_family(const llama_options& o, parameter_store& store, const model_part& part = {});

  [[nodiscard]] const llama_options& options() const noexcept { return options_; }
  [[nodiscard]] float dropout() const noexcept { return 0.0F; }
  [[nodiscard]] std::span<const initial_distribution> initial() const noexcept { return initial_; }
  /// The segment of the output layer, [vocabulary, width].
  [[nodiscard]] std::size_t head() const noexcept { return head_; }
  /// The segment of a table that is embedding and output layer in two blocks; `not_held` where there is none here.
  [[nodiscard]] std::size_t tied() const noexcept { return options_.tie && !options_.joined_ends ? tokens_ : not_held; }

  /// The segments that make the residual stream of tokens; `not_held` where they are not here.
  [[nodiscard]] embedding_tables embedding() const noexcept { return {tokens_, not_held}; }

  CAUSEWAY_DECL void hash_into(hasher& h) const noexcept;

  /// Tokens to the residual stream, [batch·T, width].
  template <class Backend>
  [[nodiscard]] autograd::variable embed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                         std::span<const std::int32_t> tokens) const {
    return autograd::embedding(t, tokens, p[tokens_], {}, p.batch);
  }

  /// Block i on the residual stream: x += attention(norm(x)), then x += mlp(norm(x)).
  template <class Backend>
  [[nodiscard]] autograd::variable block(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t i,
                                         const autograd::variable& x) const {
    const block_segments& b = blocks_[i];
    const autograd::head_layout layout{p.batch, p.T, options_.heads, options_.kv_heads, head_size()};
    const auto qkv = p.rotated(t, packed(t, p, b, norm(t, p, b.norm1, x), layout), rotary_, layout);
    const auto x1 = p.add_linear(t, x, p.attended(t, qkv, layout, i), p[b.projection], {}, linear_map::output, 0);
    const auto hidden = autograd::swiglu(t, gate_up(t, p, b, norm(t, p, b.norm2, x1)));
    return p.add_linear(t, x1, hidden, p[b.down], {}, linear_map::down, 0);
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
  struct block_segments {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, gate_up = 0, down = 0;
  };

  [[nodiscard]] std::int64_t head_size() const noexcept { return options_.width / options_.heads; }

  CAUSEWAY_DECL void declare_block(declaration& d, std::int64_t i);
  CAUSEWAY_DECL void declare_output(declaration& d);

  /// Queries, keys and values.
  template <class Backend>
  [[nodiscard]] static autograd::variable packed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                                 const block_segments& b, const autograd::variable& x,
                                                 const autograd::head_layout& layout) {
    return p.adapted_attention(t, autograd::linear(t, x, p[b.qkv]), x, layout);
  }
  template <class Backend>
  [[nodiscard]] autograd::variable gate_up(autograd::tape<Backend>& t, const pass<Backend>& p, const block_segments& b,
                                           const autograd::variable& x) const {
    auto y = p.adapted(t, autograd::linear(t, x, p[b.gate_up]), x, linear_map::gate);
    return p.adapted(t, std::move(y), x, linear_map::up, options_.hidden);
  }

  template <class Backend>
  [[nodiscard]] autograd::variable norm(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t gain,
                                        const autograd::variable& x) const {
    return autograd::rms_norm(t, x, p[gain], options_.epsilon, p.type());
  }

  llama_options options_;
  kernels::rotary_table rotary_;
  std::vector<initial_distribution> initial_;
  std::vector<block_segments> blocks_;
  std::size_t tokens_ = 0;
  std::size_t final_norm_ = 0;
  std::size_t head_ = 0;
};

template <class Backend = kernels::cpu_backend>
using basic_llama = language_model<llama_family, Backend>;

/// Llama on the CPU.
using llama = basic_llama<>;

#ifdef CAUSEWAY_COMPILED
extern template class language_model<llama_family>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/llama.ipp>
#endif

#endif  // CAUSEWAY_NN_LLAMA_HPP
