// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_TUNED_PARAMETERS_HPP
#define CAUSEWAY_PARALLEL_TUNED_PARAMETERS_HPP

// What a client trains of a model that others serve: prompts (Lester et al., 2021; Liu et al., 2022) and adapters (Hu et
// al., 2021), as parameters with names, and as the rows of values that servers get with their blocks.

#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/parallel/block_client.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct prompt_options {
  std::int64_t rows = 16;  ///< in front of every sequence; they and its tokens fit the model's context
  bool deep = true;        ///< rows of their own before every block, which begin as zeros
};

/// Either, or both.
struct tuning_options {
  std::optional<prompt_options> prompts{};
  std::optional<nn::adapter_options> adapters{};
};

/// Parameters: "prompts" [rows, width], "deep_prompts" [layers · rows, width], and of every block i and map m
/// "block.i.m.lora_A" [rank, inputs] and "block.i.m.lora_B" [outputs, rank]. One thread.
class tuned_parameters {
 public:
  /// errc::invalid_argument for sizes that cannot work, before memory is taken for them.
  static result<tuned_parameters> create(const tuning_options& o, const span_model& model, std::int64_t context) {
    if (!o.prompts && !o.adapters) {
      return fail(errc::invalid_argument, "tuned_model", "nothing is to be trained: give it prompts, adapters or both");
    }
    if (o.prompts && (o.prompts->rows < 1 || o.prompts->rows >= context)) {
      return fail(errc::invalid_argument, "tuned_model",
                  std::to_string(o.prompts->rows) + " rows of prompts in a context of " + std::to_string(context) +
                      "; there must be some and room for tokens");
    }
    tuned_parameters made{o, model};
    if (o.adapters) {
      CAUSEWAY_ASSIGN(made.tuning_.adapters, nn::shape_of(*o.adapters, model.maps));
      made.factor_ = o.adapters->alpha / static_cast<float>(o.adapters->rank);
    }
    CAUSEWAY_TRY(made.check_count());
    try {
      made.declare();
    } catch (const std::bad_alloc&) {
      return fail(errc::out_of_memory, "tuned_model", "no memory for what is trained: fewer rows or a lower rank");
    }
    return made;
  }

  [[nodiscard]] parameter_store& store() noexcept { return store_; }
  /// What servers are told of it.
  [[nodiscard]] const nn::block_tuning& tuning() const noexcept { return tuning_; }
  /// In front of every sequence.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Precondition: there are some.
  [[nodiscard]] autograd::parameter front() { return {store_.value(0), nullptr, store_.gradient(0), rows_, model_.width}; }
  [[nodiscard]] std::uint64_t hash() const { return hasher{}.add_value(store_.layout_hash()).add_value(factor_).finish(); }

  /// Prompts like embeddings of tokens, and zeros before the blocks; of adapters A with variance 1/inputs, and B zero.
  void initialize(thread_pool& pool, std::uint64_t seed) {
    nn::fill_initial(pool, store_, initial_, seed);
    store_.touch();
  }

  /// The values as servers get them, [layers, tuning().values]: alpha/rank is part of B.
  void gather(std::vector<float>& tuned) {
    tuned.resize(static_cast<std::size_t>(model_.layers * tuning_.values(model_.width, model_.maps)));
    float* to = tuned.data();
    for (const piece& p : pieces_) {
      const float* const from = store_.value(p.segment) + p.offset;
      for (std::int64_t i = 0; i < p.count; ++i) *to++ = p.factor * from[i];
    }
  }
  /// Adds the gradients of what `gather` gave.
  void add_gradients(std::span<const float> d_tuned) {
    const float* from = d_tuned.data();
    for (const piece& p : pieces_) {
      float* const to = store_.gradient(p.segment) + p.offset;
      for (std::int64_t i = 0; i < p.count; ++i) to[i] += p.factor * *from++;
    }
  }

 private:
  // A part of a block's values.
  struct piece {
    std::size_t segment = 0;
    std::int64_t offset = 0;
    std::int64_t count = 0;
    float factor = 1.0F;
  };

  tuned_parameters(const tuning_options& o, const span_model& model) : model_{model} {
    if (!o.prompts) return;
    rows_ = o.prompts->rows;
    if (o.prompts->deep) tuning_.prompts = rows_;
  }

  [[nodiscard]] result<void> check_count() const {
    constexpr double most = 1099511627776.0;  // 2^40, as for models
    const auto block = static_cast<double>(tuning_.values(model_.width, model_.maps));
    if (static_cast<double>(model_.layers) * block <= most) return {};
    return fail(errc::too_large, "tuned_model", "more than 2^40 values would be trained: fewer rows or a lower rank");
  }

  void declare() {
    if (rows_ > 0) add("prompts", parameter_kind::embedding, rows_, model_.width, nn::initial_deviation);
    std::size_t deep = 0;
    if (tuning_.prompts > 0) {
      deep = add("deep_prompts", parameter_kind::embedding, model_.layers * rows_, model_.width, 0.0F);
    }
    const std::int64_t each = tuning_.prompts * model_.width;
    for (std::int64_t block = 0; block < model_.layers; ++block) {
      if (each > 0) pieces_.push_back({deep, block * each, each, 1.0F});
      for (std::size_t map = 0; map < nn::linear_maps; ++map) {
        if (tuning_.adapters.has(map)) declare_adapter(block, map);
      }
    }
    store_.allocate();
  }

  void declare_adapter(std::int64_t block, std::size_t map) {
    const std::string name = "block." + std::to_string(block) + "." + std::string{nn::linear_map_names[map]};
    const auto [inputs, outputs] = model_.maps[map];
    const std::int64_t rank = tuning_.adapters.rank;
    const float deviation = 1.0F / std::sqrt(static_cast<float>(inputs));
    const std::size_t a = add(name + ".lora_A", parameter_kind::matrix, rank, inputs, deviation, block);
    const std::size_t b = add(name + ".lora_B", parameter_kind::matrix, outputs, rank, 0.0F, block);
    pieces_.push_back({a, 0, rank * inputs, 1.0F});
    pieces_.push_back({b, 0, outputs * rank, factor_});
  }

  std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns, float deviation,
                  std::int64_t block = -1) {
    initial_.push_back({0.0F, deviation, initial_.size()});
    return store_.add(std::move(name), kind, rows, columns, static_cast<int>(block));
  }

  span_model model_;
  nn::block_tuning tuning_{};
  std::int64_t rows_ = 0;  // of prompts in front
  float factor_ = 1.0F;    // alpha/rank
  parameter_store store_;
  std::vector<nn::initial_distribution> initial_;
  std::vector<piece> pieces_;  // in the order of the values
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_TUNED_PARAMETERS_HPP
