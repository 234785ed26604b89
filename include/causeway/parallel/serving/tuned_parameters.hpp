// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_TUNED_PARAMETERS_HPP
#define CAUSEWAY_PARALLEL_SERVING_TUNED_PARAMETERS_HPP

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
#include <causeway/parallel/serving/block_client.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

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
  CAUSEWAY_DECL static result<tuned_parameters> create(const tuning_options& o, const span_model& model,
                                                       std::int64_t context);

  [[nodiscard]] parameter_store& store() noexcept { return store_; }
  /// What servers are told of it.
  [[nodiscard]] const nn::block_tuning& tuning() const noexcept { return tuning_; }
  /// In front of every sequence.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Precondition: there are some.
  [[nodiscard]] autograd::parameter front() { return {store_.value(0), nullptr, store_.gradient(0), rows_, model_.width}; }
  [[nodiscard]] std::uint64_t hash() const { return hasher{}.add_value(store_.layout_hash()).add_value(factor_).finish(); }

  /// Prompts like embeddings of tokens, and zeros before the blocks; of adapters A with variance 1/inputs, and B zero.
  CAUSEWAY_DECL void initialize(thread_pool& pool, std::uint64_t seed);

  /// The values as servers get them, [layers, tuning().values]: alpha/rank is part of B.
  CAUSEWAY_DECL void gather(std::vector<float>& tuned);
  /// Adds the gradients of what `gather` gave.
  CAUSEWAY_DECL void add_gradients(std::span<const float> d_tuned);

 private:
  // A part of a block's values.
  struct piece {
    std::size_t segment = 0;
    std::int64_t offset = 0;
    std::int64_t count = 0;
    float factor = 1.0F;
  };

  CAUSEWAY_DECL tuned_parameters(const tuning_options& o, const span_model& model);

  CAUSEWAY_DECL [[nodiscard]] result<void> check_count() const;

  CAUSEWAY_DECL void declare();

  CAUSEWAY_DECL void declare_adapter(std::int64_t block, std::size_t map);

  CAUSEWAY_DECL std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns,
                                float deviation, std::int64_t block = -1);

  span_model model_;
  nn::block_tuning tuning_{};
  std::int64_t rows_ = 0;  // of prompts in front
  float factor_ = 1.0F;    // alpha/rank
  parameter_store store_;
  std::vector<nn::initial_distribution> initial_;
  std::vector<piece> pieces_;  // in the order of the values
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/tuned_parameters.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_TUNED_PARAMETERS_HPP
