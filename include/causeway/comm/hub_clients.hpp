// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_CLIENTS_HPP
#define CAUSEWAY_COMM_HUB_CLIENTS_HPP

// The clients of a hub: the line to each, who is still here, and how far each has come.

#include <causeway/comm/hub_line.hpp>
#include <causeway/comm/hub_roles.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/push_aggregator.hpp>
#include <causeway/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// What a hub knows of one client.
struct hub_client {
  std::uint64_t name = 0;              ///< of who is a client whatever place it has
  std::vector<std::uint64_t> taken;    ///< of each fragment: the number of the last push that came
  std::vector<std::uint64_t> samples;  ///< of each fragment: those behind the last push that came; 0: there was none
  double speed = 0;
  double sync_seconds = 0;
  bool here = true;  ///< neither lost nor refused
  bool done = false;
  bool waits = false;                ///< for an answer: it will not push anything before
  std::uint32_t unsound = 0;         ///< pushes in a row that were not finite
  std::unique_ptr<hub_line> line{};  ///< none for this peer itself

  void serialize(auto& ar) { ar(taken, samples, speed, sync_seconds); }
};

/// Of one hub. The peer that it runs on may be a client as well, without a line. Not thread-safe.
class hub_clients {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return clients_.size(); }
  [[nodiscard]] hub_client& operator[](std::size_t c) { return clients_[c]; }
  [[nodiscard]] const hub_client& operator[](std::size_t c) const { return clients_[c]; }
  [[nodiscard]] net::peer_index peer_of(std::size_t c) const { return peers_[c]; }
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t index_of(net::peer_index peer) const;
  /// One that is still there, to have something to wait for; none: the peer's own index.
  CAUSEWAY_DECL [[nodiscard]] net::peer_index somebody(net::peer_index self) const;

  // ---- who they are ----------------------------------------------------------------------------------------------------

  /// So many that nothing is known of.
  CAUSEWAY_DECL void found(std::size_t clients, std::size_t fragments);
  void grow(std::size_t clients) { clients_.resize(std::max(clients_.size(), clients)); }
  void clear() { clients_.clear(); }
  /// Lines to the peers of `group`, in their order.
  CAUSEWAY_DECL void open(const hub_terms& terms, std::uint32_t level, std::span<const net::peer_index> group,
                          std::size_t most_bytes);
  /// From now on they are those of `group`. Who was one before is known still, by name.
  CAUSEWAY_DECL void regroup(const hub_terms& terms, std::uint32_t level, const hub_group& group, std::size_t fragments,
                             std::size_t most_bytes);
  /// Ends all lines; the clients stay known.
  CAUSEWAY_DECL void hang_up();

  // ---- what is said to them ----------------------------------------------------------------------------------------

  CAUSEWAY_DECL void reply(std::uint32_t c, std::vector<std::byte> bytes);
  /// Which of its pushes were taken: to one of them, to all.
  CAUSEWAY_DECL void tell_taken(std::uint32_t c);
  CAUSEWAY_DECL void tell_taken();
  /// The shared parameters, for good, to all that are still here.
  CAUSEWAY_DECL void dismiss(const hub_terms& terms, std::span<const float> shared);
  /// The hub goes on without it; `refuse` tells it, too.
  CAUSEWAY_DECL void lose(const hub_terms& terms, std::uint32_t c, const error& why);
  CAUSEWAY_DECL void refuse(const hub_terms& terms, std::uint32_t c, const error& why);
  /// Answers to this peer itself.
  [[nodiscard]] std::deque<std::vector<std::byte>>& own_answers() noexcept { return own_answers_; }

  // ---- how far they are --------------------------------------------------------------------------------------------

  [[nodiscard]] bool listens_to(std::uint32_t c) const {
    return clients_[c].line && clients_[c].here;  // also when it is done: how else would its loss be noticed
  }
  /// None will push any more.
  CAUSEWAY_DECL [[nodiscard]] bool are_through() const;
  /// Pushes of fragment f that the slowest client may still be waited for has made.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t slowest(std::size_t f) const;
  CAUSEWAY_DECL [[nodiscard]] std::vector<double> speeds() const;
  /// The samples behind a merged batch over those of all clients, an absent one with what its last push had: 1 when all
  /// are there. One that has not pushed yet counts as the mean of the batch; one that never did and is done, as nothing.
  CAUSEWAY_DECL [[nodiscard]] float share_of(std::size_t f, std::span<const waiting_push> batch) const;
  /// Seconds that answers to these may take before a client waits for one; `merge_steps`: τ.
  CAUSEWAY_DECL [[nodiscard]] double slack_of(double merge_steps, std::span<const waiting_push> batch) const;

  void serialize(auto& ar) {
    for (hub_client& c : clients_) ar(c);
  }

 private:
  CAUSEWAY_DECL static hub_client newcomer(std::size_t fragments);
  /// A line to every client but this peer itself.
  CAUSEWAY_DECL void connect(const hub_terms& terms, std::uint32_t level, std::size_t most_bytes);

  std::vector<net::peer_index> peers_;
  std::vector<hub_client> clients_;
  std::deque<std::vector<std::byte>> own_answers_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_clients.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_CLIENTS_HPP
