// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_SERVED_MODELS_HPP
#define CAUSEWAY_PRESETS_SERVED_MODELS_HPP

// Fine-tuning of pre-trained models whose blocks lie on other peers and stay as they are.

#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/parallel/serving/block_server.hpp>
#include <causeway/parallel/serving/block_server_directory.hpp>
#include <causeway/parallel/serving/tuned_model.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/frozen_blocks.hpp>

#include <memory>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Petals (Borzunov et al., 2022 and 2023): a client trains prompts of a model whose frozen blocks others serve, and keeps
/// them, their optimizer and what went into each hop; hidden states cross in dynamic 8 bits by blocks, the chain of servers
/// is the quickest by measured times, and a lost server's blocks are asked of others. Other peers run
/// presets::petals_server.
///
/// Formula:
///   h_0 = [prompts; embedding(tokens)];  h_l = block_l(h_(l−1)), frozen;  prompts ← optimizer(prompts, ∂loss/∂prompts)
/// Sent: hidden states in 8 bits to each server of the chain and back, gradients likewise; nothing about prompts but
/// where each block has its own.
struct petals_finetune_options {
  std::shared_ptr<net::fabric> fabric{};    ///< of the servers; a transport for other clients of the task is another one
  nn::gpt_options model{};                  ///< the frozen one
  stage::parameter_source source{};         ///< gives its embedding and output layer
  parallel::prompt_options prompts{};       ///< how many rows, and whether every block has its own
  parallel::block_client_options client{};  ///< run, addresses, sizes, times
  log_sink log{};
};
using petals_finetune = parallel::tuned_model<nn::gpt_family, stage::coded<compress::dynamic_int8>>;

/// Petals with LoRA (Hu et al., 2021; Borzunov et al., 2022): as petals_finetune, but what a client trains is low-rank
/// adapters beside the blocks' linear maps, of queries and values at first; they travel with every request, in f32, and
/// servers keep none. The servers are the same, and serve clients of both kinds.
///
/// Formula:
///   block_l's maps: W·x + (α/r)·B_l·A_l·x, W frozen;  A_l, B_l ← optimizer, at the client
/// Sent: hidden states and gradients in 8 bits to each server of the chain and back, with A_l and B_l in f32, and their
/// gradients.
struct petals_lora_options {
  std::shared_ptr<net::fabric> fabric{};    ///< of the servers; a transport for other clients of the task is another one
  nn::gpt_options model{};                  ///< the frozen one
  stage::parameter_source source{};         ///< gives its embedding and output layer
  nn::adapter_options adapters{};           ///< rank, alpha, and which maps have one
  parallel::block_client_options client{};  ///< run, addresses, sizes, times
  log_sink log{};
};
using petals_lora = parallel::tuned_model<nn::gpt_family, stage::coded<compress::dynamic_int8>>;

namespace detail {

[[nodiscard]] result<petals_finetune> tuned_by(const auto& o, const parallel::tuning_options& tuning) {
  const stage::parameter_source none = [](parameter_store&) -> result<void> {
    return fail(errc::invalid_argument, "petals", "no source of the embedding and the output layer");
  };
  return petals_finetune::create(o.model, tuning, o.source ? o.source : none, o.fabric, o.client,
                                 stage::coded<compress::dynamic_int8>{}, o.log);
}

}  // namespace detail

CAUSEWAY_DECL [[nodiscard]] result<petals_finetune> make(const petals_finetune_options& o);
CAUSEWAY_DECL [[nodiscard]] result<petals_lora> make(const petals_lora_options& o);

/// The servers of both.
using petals_server = parallel::block_server<stage::frozen_blocks<nn::gpt_family>, stage::coded<compress::dynamic_int8>>;

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/served_models.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_SERVED_MODELS_HPP
