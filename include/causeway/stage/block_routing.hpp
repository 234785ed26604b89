// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_BLOCK_ROUTING_HPP
#define CAUSEWAY_STAGE_BLOCK_ROUTING_HPP

// Which servers a client's rows go through, where servers hold spans of blocks that overlap (Petals: Borzunov et al.,
// 2022). What is known of servers is measured by the client: how far away each is, how long its requests take, whether it
// failed. The chain is the shortest path through the blocks. Petals' search is Dijkstra's or a beam's; blocks are passed in
// their order, so a sweep from the last to the first is exact and simpler. No clock: times are given.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/model_part.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// What a server says of itself.
struct span_offer {
  nn::block_range blocks{};
  double seconds = 0;               ///< for a row through a block, forward
  double load = 0;                  ///< seconds of work of others that wait there
  std::uint32_t most_requests = 1;  ///< of a client at once
  std::uint32_t most_rows = 1;      ///< of a request, those of what is tuned too
};

/// What is to go through blocks.
struct span_need {
  std::int64_t rows = 1;
  std::int64_t tuned = 0;  ///< rows that come with the request for every block
};

/// One hop: a server, and the blocks that are asked of it.
struct span_hop {
  net::peer_id server = 0;
  nn::block_range blocks{};

  friend bool operator==(const span_hop&, const span_hop&) = default;
};
using span_chain = std::vector<span_hop>;

struct span_directory_options {
  duration ban = std::chrono::seconds{1};  ///< after a failure; twice as long after each more in a row
  duration longest_ban = std::chrono::minutes{2};
  double smoothing = 0.3;  ///< weight of the newest measurement
};

/// Copyable; no thread safety.
class span_directory {
 public:
  CAUSEWAY_DECL explicit span_directory(std::int64_t layers = 1, const span_directory_options& options = {});

  [[nodiscard]] std::int64_t layers() const noexcept { return layers_; }
  /// Servers that say they serve something, banned ones too.
  CAUSEWAY_DECL [[nodiscard]] std::size_t size() const noexcept;

  /// Precondition: blocks of the model. What was measured is believed less with every announcement, so that a server that
  /// was slow is tried again some day.
  CAUSEWAY_DECL void announced(net::peer_id id, const span_offer& offer, time_point until);
  /// It serves nothing before it announces itself again. Its failures are remembered for a time.
  CAUSEWAY_DECL void gone(net::peer_id id);
  /// So with whoever did not announce itself again.
  CAUSEWAY_DECL void expire(time_point now);

  /// A small message went there and back.
  CAUSEWAY_DECL void probed(net::peer_id id, double seconds);
  /// A request was sent; `answered` or `failed` follows. `work`: rows times blocks, a backward counted twice.
  CAUSEWAY_DECL void asked(net::peer_id id, double work);
  /// It need not answer any more.
  CAUSEWAY_DECL void dropped(net::peer_id id, double work);
  /// Whether it has as many requests of ours as it takes at once.
  CAUSEWAY_DECL [[nodiscard]] bool full(net::peer_id id) const;
  /// It took so long: what was not computing was the way there and back, for each row.
  CAUSEWAY_DECL void answered(net::peer_id id, double work, double rows, double seconds);
  /// Not chosen for a time, which doubles with every failure in a row; those of requests that were under way count as one.
  CAUSEWAY_DECL void failed(net::peer_id id, double work, time_point now);
  /// When the first ban ends; no_deadline where nobody is banned.
  CAUSEWAY_DECL [[nodiscard]] time_point next_return(time_point now) const;

  /// The quickest chain through `blocks`, forward and backward; empty where some block has no server that
  /// can be asked. Ties: fewer hops first, then the lower id. O(blocks² · servers).
  CAUSEWAY_DECL [[nodiscard]] span_chain route(nn::block_range blocks, const span_need& need, time_point now) const;

  /// The first block of `blocks` that nobody can be asked for; its end where there is none.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t first_missing(nn::block_range blocks, time_point now) const;

 private:
  static constexpr double unreachable = std::numeric_limits<double>::infinity();
  static constexpr double forgetting = 0.99;

  struct server {
    span_offer offer{};
    time_point until{};
    time_point banned_until{};
    std::uint32_t failures = 0;   // in a row
    double trip = 0;              // seconds there and back for a small message
    double wire = 0;              // and more for each row
    std::vector<double> waiting;  // work of ours that it has not answered
  };
  struct place {
    double cost = unreachable;
    span_hop hop{};
  };

  CAUSEWAY_DECL [[nodiscard]] server* find(net::peer_id id);
  CAUSEWAY_DECL [[nodiscard]] double mixed(double old, double fresh) const;
  /// For those of whom nothing is known: the mean of the others.
  CAUSEWAY_DECL [[nodiscard]] double usual_trip() const;
  CAUSEWAY_DECL static void withdraw(server& s);
  CAUSEWAY_DECL static void done(server& s, double work);
  CAUSEWAY_DECL [[nodiscard]] static bool usable(const server& s, time_point now);
  /// Forward and backward: the way twice, and three times the computing, since a backward computes the forward again.
  CAUSEWAY_DECL [[nodiscard]] static double cost_of(const server& s, double usual_trip, std::int64_t rows,
                                                    std::int64_t blocks);

  std::int64_t layers_;
  span_directory_options options_;
  std::map<net::peer_id, server> servers_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/block_routing.ipp>
#endif

#endif  // CAUSEWAY_STAGE_BLOCK_ROUTING_HPP
