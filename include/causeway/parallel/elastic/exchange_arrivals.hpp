// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_EXCHANGE_ARRIVALS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_EXCHANGE_ARRIVALS_HPP

// Who of an attempt's peers has come to the exchange at its end: each says so to all, once, and who still trains can look.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer, for the trainer's thread. What is under way ends with it.
class exchange_arrivals {
 public:
  /// Another attempt: `transport` leads to its peers, and must stay where it is.
  CAUSEWAY_DECL void begin(net::any_transport& transport, const net::message_id& id);

  /// Whether somebody else who trains has come. Without waiting.
  CAUSEWAY_DECL [[nodiscard]] bool any() const;
  /// Or nobody can any more: the attempt is over, or a peer of it lost.
  CAUSEWAY_DECL [[nodiscard]] bool any_or_over() const;

  /// This peer comes, once in an attempt, after `steps` steps of the run, and waits for all others. The most that somebody
  /// has. 8 bytes to each.
  CAUSEWAY_DECL result<std::uint64_t> meet(std::uint64_t steps, bool trains, time_point deadline);

 private:
  struct word {
    std::uint64_t steps_and_trains = 0;  // 0: nothing was heard
    net::scoped_operation operation{};
  };

  net::any_transport* transport_ = nullptr;
  net::message_id id_;
  std::vector<word> heard_;  // by peer; this one's is what it says
  std::vector<net::scoped_operation> said_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/exchange_arrivals.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_EXCHANGE_ARRIVALS_HPP
