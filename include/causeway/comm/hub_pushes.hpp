// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_PUSHES_HPP
#define CAUSEWAY_COMM_HUB_PUSHES_HPP

// The pushes that a hub has taken and not applied yet, and those that it has applied and not answered yet.

#include <causeway/comm/hub_clients.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/push_aggregator.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// A push that was applied and not answered yet.
struct owed_answer {
  std::uint32_t client = 0;
  std::uint64_t number = 0;
  time_point since{};  ///< as waiting_push has it
  // Not part of a checkpoint: a client that is not told pushes what is not finite once more, and is told then.
  bool unsound = false;

  void serialize(auto& ar) { ar(client, number); }
};

/// Of one hub, by fragment. Not thread-safe.
class hub_pushes {
 public:
  std::vector<std::vector<waiting_push>> waiting;  ///< in the order of arrival
  std::vector<std::vector<owed_answer>> owed;

  [[nodiscard]] std::size_t fragments() const noexcept { return waiting.size(); }
  CAUSEWAY_DECL void cut(std::size_t fragments);
  /// From a checkpoint: all came now.
  CAUSEWAY_DECL void restarted(time_point now);

  /// errc::too_large where client c, which is `peer`, has too many that wait.
  CAUSEWAY_DECL [[nodiscard]] result<void> room_for(std::uint32_t c, std::size_t f, net::peer_index peer) const;
  /// It was applied.
  CAUSEWAY_DECL void owe(const waiting_push& w, std::size_t f);
  /// After a restart one side may know of pushes that the other has not made, or not heard of: what client c says is owed
  /// to it, nothing else. Whether that will be answered.
  CAUSEWAY_DECL bool catch_up(std::uint32_t c, std::size_t f, const hello_entry& said);

  /// A push of client c waits, or its answer does.
  CAUSEWAY_DECL [[nodiscard]] bool concern(std::uint32_t c, std::size_t f) const;
  CAUSEWAY_DECL [[nodiscard]] bool are_applied() const;
  /// Clients that may still push this fragment, or have. One that waits for another fragment may not: if it counted, two
  /// clients could wait for each other.
  CAUSEWAY_DECL [[nodiscard]] std::size_t expected_of(const hub_clients& clients, std::size_t f) const;

  void serialize(auto& ar) {
    for (auto& all : waiting) ar(all);
    for (auto& all : owed) ar(all);
  }

 private:
  // Of one client and fragment: the one that it waits for, and one from before its restart. So what waits at a hub is
  // bounded by its clients.
  static constexpr std::ptrdiff_t most_waiting = 2;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_pushes.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_PUSHES_HPP
