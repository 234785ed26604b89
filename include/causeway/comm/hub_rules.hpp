// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_RULES_HPP
#define CAUSEWAY_COMM_HUB_RULES_HPP

// What all parts of comm::async_parameter_server are told in every call: the axes, and the doors of the run.

#include <causeway/axis/fragments.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/comm/hub_line.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Two channels for each level of hubs: to the hub, and back.
constexpr std::uint32_t hub_channel(std::uint32_t level) noexcept { return collective::channels::updates + 2 * level; }

/// Of each fragment, in a client's hello.
struct hello_entry {
  std::uint64_t number = 0;   ///< of its last push
  std::uint64_t pending = 0;  ///< 1: it waits for the answer
};
constexpr std::size_t hello_bytes(std::size_t fragments) noexcept {
  return sizeof(push_header) + fragments * sizeof(hello_entry);
}

/// What was trained on for a push.
struct hub_work {
  std::uint64_t samples = 0;
  std::uint32_t steps = 0;
};

/// What a push may say that it was trained on.
struct push_limits {
  std::uint64_t samples = UINT64_MAX;  ///< in all; more count as so many
  std::uint32_t batch = 0;             ///< in each inner step; more are refused; 0: any number
};

/// What a push of peer `from` counts for: no more than it can have been trained on.
CAUSEWAY_DECL [[nodiscard]] result<hub_work> credible(const push_limits& most, const push_header& said,
                                                      net::peer_index from);

/// The run, as it is now.
struct hub_terms {
  net::any_transport& transport;
  thread_pool& pool;
  const any_clock& clock;
  const log_sink& log;
  std::span<const axis::fragment> cuts;
  std::uint64_t seed = 0;
  time_point deadline = no_deadline;
  push_limits most{};

  [[nodiscard]] time_point now() const { return clock.now(); }

  /// What a codec may know about a push of fragment f, but for the sender's own.
  CAUSEWAY_DECL [[nodiscard]] compress::message_context about(std::uint32_t level, std::size_t f) const;
};

/// The axes, as far as hubs need them.
template <class Trigger, class Arrivals, class Codec, class Aggregator>
struct hub_rules {
  using arrivals_type = Arrivals;
  using codec_type = Codec;
  using aggregator_type = Aggregator;

  const Trigger& trigger;
  const Arrivals& arrivals;
  Codec codec;
  const Aggregator& aggregator;
  double merge_steps = 0;  ///< τ

  /// Inner steps before a client's next push; 0: it knows by itself.
  [[nodiscard]] std::uint32_t steps_for(double speed, std::span<const double> speeds) const {
    if constexpr (requires { trigger.steps_for(speed, speeds); }) {
      return trigger.steps_for(speed, speeds);
    } else {
      return 0;
    }
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_rules.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_RULES_HPP
