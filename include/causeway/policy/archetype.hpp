// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_ARCHETYPE_HPP
#define CAUSEWAY_POLICY_ARCHETYPE_HPP

// The least that a policy may rely on. Policies are checked against these declarations, which have no definitions, so that
// error messages stay short and do not depend on the model. train/context.hpp has the real context; the comments are there.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace archetype {

/// What a `serialize` member is given.
struct archive {
  template <class... Ts>
  void operator()(Ts&...);
};

/// What `meet_holders` is told: parallel::block_holders.
struct holders;

struct context {
  [[nodiscard]] net::peer_index self() const;
  [[nodiscard]] std::uint32_t peers() const;
  [[nodiscard]] std::uint64_t step() const;
  [[nodiscard]] std::uint64_t round() const;
  [[nodiscard]] bool keeps_inputs() const;

  std::span<float> parameters();
  std::span<float> gradients();
  parameter_view view();
  void parameters_changed();
  void reset_inner();
  result<void> subtract(std::span<float>, std::span<const float>, std::span<const float>);
  result<void> copy(std::span<float>, std::span<const float>);
  result<void> track_updates(std::span<float>);

  thread_pool& pool();
  any_clock& clock();
  rng& random();
  rng& shared_random();
  net::any_transport& transport();

  result<double> forward_backward(const batch&, float);
  template <class Codec>
  result<void> mean(const Codec&, std::span<float>);
  result<void> average_with(net::peer_index, std::span<float>);
  std::optional<net::peer_index> random_partner();
  result<void> inner_step();
  float own_norm();
  void resume_at(std::uint64_t step, bool going_on = false);
  void commit_round();

  result<verdict> decide(const result<void>&);
};

}}}  // namespace causeway::CAUSEWAY_ABI::archetype

#endif  // CAUSEWAY_POLICY_ARCHETYPE_HPP
