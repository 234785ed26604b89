// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_SERVED_MODELS_HPP
#define CAUSEWAY_PRESETS_SERVED_MODELS_HPP

// Fine-tuning of pre-trained models whose blocks lie on other peers and stay as they are.

#include <causeway/compress/block_int8.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/parallel/block_lookout.hpp>
#include <causeway/parallel/block_server.hpp>
#include <causeway/parallel/prompted_model.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/frozen_blocks.hpp>

#include <memory>

namespace causeway::inline CAUSEWAY_ABI::presets {

/// Petals (Borzunov et al., 2022 and 2023): a client trains prompts of a model whose frozen blocks others serve, and keeps
/// them, their optimizer and what went into each hop; hidden states cross in block-wise 8 bits, the chain of servers is the
/// quickest by measured times, and a lost server's blocks are asked of others. Other peers run presets::petals_server.
struct petals_finetune_options {
  std::shared_ptr<net::fabric> fabric{};    ///< of the servers; a transport for other clients of the task is another one
  nn::gpt_options model{};                  ///< the frozen one
  stage::parameter_source source{};         ///< gives its embedding and output layer
  parallel::prompt_options prompts{};       ///< how many rows, and whether every block has its own
  parallel::block_client_options client{};  ///< run, addresses, sizes, times
  log_sink log{};
};
using petals_finetune = parallel::prompted_model<nn::gpt_family, stage::coded<compress::block_int8>>;
[[nodiscard]] inline result<petals_finetune> make(const petals_finetune_options& o) {
  const stage::parameter_source none = [](parameter_store&) -> result<void> {
    return fail(errc::invalid_argument, "petals_finetune", "no source of the embedding and the output layer");
  };
  return petals_finetune::create(o.model, o.prompts, o.source ? o.source : none, o.fabric, o.client,
                                 stage::coded<compress::block_int8>{}, o.log);
}

/// Its servers.
using petals_server = parallel::block_server<stage::frozen_blocks<nn::gpt_family>, stage::coded<compress::block_int8>>;

}  // namespace causeway::inline CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_SERVED_MODELS_HPP
