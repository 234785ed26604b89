// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_E2E_LOSS_TABLE_MODEL_HPP
#define CAUSEWAY_BENCH_E2E_LOSS_TABLE_MODEL_HPP

// The small GPT and the text that all rows of the table train on. The model is behind a wall, so that a file of presets
// does not compile a transformer.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace losses {

inline constexpr std::int64_t context_length = 64;
inline constexpr std::int64_t batch = 4;  ///< sequences of one peer and step

/// nn::gpt with 2 blocks, width 32, bytes as tokens. A causeway::Model.
class small_gpt {
 public:
  struct device {
    causeway::thread_pool* threads;
    causeway::thread_pool& pool() { return *threads; }
  };

  small_gpt();
  small_gpt(small_gpt&&) noexcept;
  small_gpt& operator=(small_gpt&&) noexcept;
  ~small_gpt();

  causeway::parameter_store& parameters();
  std::uint64_t config_hash() const;
  device& backend();
  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                            std::int64_t sequences, float scale, std::uint64_t stream);
  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                    std::int64_t sequences);

 private:
  struct inside;
  std::unique_ptr<inside> inside_;
};

/// The text, cut into what is trained on and what is not, and the parameters that every run begins with.
struct corpus {
  causeway::data::token_stream training;
  causeway::data::token_stream validation;
  std::vector<float> start;  ///< none: fresh ones

  /// Bytes as tokens; the last twentieth is for validation.
  static causeway::result<corpus> read(const std::string& path);
};

/// A model with the parameters that every run begins with.
small_gpt starting_model(const corpus& text);

/// Nats per token over the same 32,768 validation tokens for everybody.
causeway::result<double> validation_loss(small_gpt& model, const corpus& text);

}  // namespace losses

#endif  // CAUSEWAY_BENCH_E2E_LOSS_TABLE_MODEL_HPP
