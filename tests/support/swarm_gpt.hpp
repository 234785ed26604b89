// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SWARM_GPT_HPP
#define CAUSEWAY_TESTS_SUPPORT_SWARM_GPT_HPP

// A job for swarms that is a language model.

#include <causeway/core/rng.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/models.hpp"
#include "support/swarm_seat.hpp"

namespace support {

/// Two sequences of 8 tokens a micro-batch, through a small GPT with untied tables.
struct gpt_job {
  using model_type = causeway::nn::gpt;
  std::int64_t blocks = 2;

  [[nodiscard]] model_type make(causeway::nn::model_part part, const block_seconds& = {}) const {
    causeway::nn::gpt_options o;
    o.layers = blocks, o.heads = 2, o.width = 16, o.context = 8, o.vocabulary = 29;
    o.tie = false;
    return model_type::create(o, causeway::kernels::cpu_backend{1}, std::move(part)).value();
  }
  [[nodiscard]] swarm_batch batch(const swarm_schedule& s, std::uint64_t step) const {
    const std::int64_t sequences = 2 * s.micro_batches;
    swarm_batch b{std::vector<std::int32_t>(static_cast<std::size_t>(8 * sequences)), sequences};
    causeway::rng random{s.seed, step};
    for (auto& t : b.tokens) t = static_cast<std::int32_t>(random.below(29));
    return b;
  }
};

/// The same with an output layer that is the token table.
struct tied_gpt_job : gpt_job {
  [[nodiscard]] model_type make(causeway::nn::model_part part, const block_seconds& = {}) const {
    auto o = gpt_job::make({}).options();
    o.tie = true;
    return model_type::create(o, causeway::kernels::cpu_backend{1}, std::move(part)).value();
  }
};

/// Gradients of the small GPT are larger than that, so clipping by the whole model's norm shows.
inline constexpr float gpt_clip_norm = 0.5F;
inline constexpr float gpt_rate = 0.2F;

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SWARM_GPT_HPP
