// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_LINK_METER_HPP
#define CAUSEWAY_EXAMPLES_LINK_METER_HPP

// Counts what passes on each link of a peer, and how long the peer waits for whom. watched_fabric.hpp and
// watched_transport.hpp feed it; metrics.jsonl has what it counted.

#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "told_figures.hpp"

namespace app {

/// One link since the peer began.
struct link_use {
  causeway::net::peer_id peer = 0;  ///< to whom; of fixed peers their number
  std::string address{};            ///< where that peer listens, where that is known
  bool up = false;
  std::uint64_t bytes_sent = 0;        ///< of data; headers and control messages are not counted
  std::uint64_t bytes_received = 0;    ///< likewise
  double sending_seconds = 0;          ///< in which at least one send to it had not been waited for yet
  double waited_seconds = 0;           ///< in which this peer could do nothing but wait for it
  std::optional<told_figures> told{};  ///< what that peer said of itself last
};

/// Thread-safe.
class link_meter {
 public:
  void met(causeway::net::peer_index link, causeway::net::peer_id who, const std::string& address);
  void lost(causeway::net::peer_index link);

  /// A send that began at `begin`.
  void sent(causeway::net::peer_index link, causeway::net::operation op, std::size_t bytes, causeway::time_point begin);
  void receiving(causeway::net::peer_index link, causeway::net::operation op);
  /// A wait for `op` from `begin` to `now`, and how many bytes it gave; 0 where it failed.
  void waited(causeway::net::operation op, std::size_t bytes, causeway::time_point begin, causeway::time_point now);
  /// A wait that ended when a control message of `link` came.
  void waited_for(causeway::net::peer_index link, double seconds);

  void told(causeway::net::peer_index link, const told_figures& figures);

  [[nodiscard]] std::vector<link_use> all() const;

 private:
  struct link {
    link_use use;
    unsigned sends_under_way = 0;
    causeway::time_point sending_since{};
  };
  struct transfer {
    causeway::net::peer_index link = 0;
    bool send = false;
  };

  mutable std::mutex mutex_;
  std::map<causeway::net::peer_index, link> links_;
  std::unordered_map<causeway::net::operation, transfer> under_way_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_LINK_METER_HPP
