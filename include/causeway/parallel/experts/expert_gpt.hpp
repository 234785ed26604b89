// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP

// GPT-2 with a mixture of remote experts in place of every feed-forward part (after Learning@home: Ryabinin and Gusev,
// NeurIPS 2020, whose experts are whole layers; here attention stays with the trainer, so that rows travel by themselves).
// Embedding, attention, norms and gates are parameters of this model, for a trainer and any policy; experts are their
// hosts'.

#include <causeway/autograd/linear.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/experts/expert_client.hpp>
#include <causeway/parallel/experts/expert_layer.hpp>
#include <causeway/parallel/remote_pass.hpp>
#include <causeway/stage/product_key_gate.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Layers and width are the mixture's.
struct expert_gpt_options {
  std::int64_t heads = 4;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  float epsilon = 1e-5F;
  stage::product_key_options gate{};
};

/// Models train's Model, f32, no dropout, output layer tied to the token table. One thread at a time. A step waits for the
/// experts of one block after another, there and back: 2 · layers round trips.
class expert_gpt {
 public:
  using backend_type = kernels::cpu_backend;

  /// `client` outlives the model. errc::invalid_argument for sizes that cannot work.
  CAUSEWAY_DECL static result<expert_gpt> create(const expert_gpt_options& options, expert_client& client,
                                                 backend_type backend = backend_type{});

  [[nodiscard]] parameter_store& parameters() noexcept { return engine_->store; }
  [[nodiscard]] backend_type& backend() noexcept { return engine_->backend; }
  /// Of the gate that experts of block l are chosen by, and what was lost there.
  [[nodiscard]] expert_layer& layer(std::size_t l) noexcept { return engine_->layers[l]; }

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t config_hash() const;

  /// Fresh parameters, a function of the seed.
  CAUSEWAY_DECL void initialize(std::uint64_t seed);

  /// As nn::language_model; errc::timeout where no expert of a block answered. Experts that were asked before have moved.
  CAUSEWAY_DECL result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                                std::int64_t sequences, float scale, std::uint64_t);
  CAUSEWAY_DECL result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                        std::int64_t sequences);

 private:
  using tape_type = autograd::tape<backend_type>;

  // A linear map or a norm takes two segments: weight, bias.
  struct block {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, gate = 0;
  };

  // Everything, in one place that stays when the model moves: the tape points into it.
  struct engine {
    CAUSEWAY_DECL engine(const expert_gpt_options& o, const expert_mixture_options& m, std::vector<expert_layer> given,
                         backend_type b);
    CAUSEWAY_DECL [[nodiscard]] block declare(nn::declaration& d, std::size_t l);
    CAUSEWAY_DECL std::size_t declare_norm(nn::declaration& d, const std::string& prefix) const;
    CAUSEWAY_DECL [[nodiscard]] autograd::parameter at(std::size_t segment);

    expert_gpt_options options;
    std::int64_t width;
    std::vector<expert_layer> layers;
    backend_type backend;
    parameter_store store;
    std::vector<nn::initial_distribution> initial;
    std::vector<block> blocks;
    std::size_t tokens = 0, positions = 0, final_norm = 0;
    buffer_pool memory;
    tape_type tape{backend, memory};
    std::optional<error> failed;  // an expert layer's, in the pass under way
  };

  CAUSEWAY_DECL expert_gpt(const expert_gpt_options& o, const expert_mixture_options& m, std::vector<expert_layer> layers,
                           backend_type backend);

  CAUSEWAY_DECL result<double> run(const nn::micro_batch& b, bool training);

  CAUSEWAY_DECL double pass(const nn::micro_batch& b);

  CAUSEWAY_DECL [[nodiscard]] autograd::variable norm(std::size_t segment, const autograd::variable& x);

  /// What the experts of block l make of x. Their failure is kept: a tape cannot tell of it.
  CAUSEWAY_DECL [[nodiscard]] autograd::variable mixture(std::size_t l, const autograd::variable& x);

  std::unique_ptr<engine> engine_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/experts/impl/expert_gpt.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP
