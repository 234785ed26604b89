// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_EXPERTS_HPP
#define CAUSEWAY_PRESETS_EXPERTS_HPP

// Models whose experts are trained where they lie, by their hosts.

#include <causeway/axis/every.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/experts/expert_gpt.hpp>
#include <causeway/parallel/experts/expert_host.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Learning@home (Ryabinin and Gusev, NeurIPS 2020): what trainers do with what is theirs, gates, attention and embedding,
/// while experts move in every backward at their hosts: parameters are averaged now and then. The model is
/// parallel::expert_gpt over an expert_client, and other peers run expert_host (docs/policies/expert_layer.md). How often
/// the paper averages is not known to us.
///
/// Formula:
///   y = Σ over the chosen experts of softmax(gate)_e·f_e(x);  experts step in each backward, at their host
///   what trainers hold: x_i ← mean of x_j every H steps
/// Sent: rows and gradients to the hosts of the chosen experts and back, in every pass; the trainers' own parameters in
/// f32, every H steps.
struct learning_at_home_options {
  std::uint32_t local_steps = 100;
};
using learning_at_home = comm::rounds<axis::every, axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] learning_at_home make(const learning_at_home_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/experts.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_EXPERTS_HPP
