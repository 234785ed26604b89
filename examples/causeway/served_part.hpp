// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SERVED_PART_HPP
#define CAUSEWAY_EXAMPLES_SERVED_PART_HPP

// What both sides of servers know from settings, so that they understand each other.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/formats/huggingface.hpp>
#include <causeway/net/fabric_options.hpp>
#include <causeway/parallel/experts/expert_host.hpp>
#include <causeway/stage/frozen_blocks.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <string>

#include "launch.hpp"
#include "settings.hpp"

namespace app {

inline causeway::parallel::expert_mixture_options mixture_of(const settings& s) {
  return {.run = run_id_of(s),
          .sides = s.experts.sides,
          .width = s.model.width,
          .layers = static_cast<std::uint32_t>(s.model.layers)};
}

/// The network of servers: one for each run with experts, one for each frozen model, whose clients know nothing of each
/// other.
inline std::uint64_t server_network(const settings& s) {
  const std::uint64_t of = has_experts(s) ? run_id_of(s) : causeway::hash_text(s.model.start);
  return causeway::mix(of, 0x73727672) | 1U;
}

inline causeway::net::fabric_options server_fabric(const settings& s, causeway::net::peer_id id) {
  causeway::net::fabric_options o;
  o.run_id = server_network(s);
  o.id = id;
  o.streams_per_link = s.net.streams;
  o.transport.shared_memory = s.net.shared_memory;
  o.transport.log = log_to_stderr();
  return o;
}

/// Parameters of a stored model, those of the part that is asked for.
inline causeway::stage::parameter_source stored_in(const std::string& folder,
                                                   const causeway::formats::model_options& options) {
  return [folder, options](causeway::parameter_store& part) {
    return causeway::formats::load_parameters(folder, options, part);
  };
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SERVED_PART_HPP
