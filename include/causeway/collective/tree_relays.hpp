// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP
#define CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP

// What goes by third peers of the rows that travel along a tree: the end of a row, while too much waits for the direct line
// (NETSTORM's auxiliary paths, 2024; collective/relay_paths.hpp). A relay passes bytes on as they are, so that sums and
// means have the same bits with and without. Who sends a row sends something by each of its paths, if only an empty
// message: so everybody knows from the tree what comes, and nobody asks. Whatever a peer waits for, it passes on meanwhile
// what comes to it for others, in the order in which it comes: so nobody can wait for another in a circle.

#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/relay_paths.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct relay_options {
  std::uint32_t limit =
      0;  ///< L: above 2 L messages waiting directly, the next path that has fewer takes one; 0: none does
  std::size_t message_bytes = 4'000'000;  ///< a row is cut into these, at least 1; the last may be smaller
};

class tree_relays;

/// What one peer has handed over to its lines in several exchanges, in messages of a row. Not thread-safe.
class line_queues {
 public:
  /// On these lines from now on; what was under way on others does not count.
  CAUSEWAY_DECL void open(const exchange_port& port);
  CAUSEWAY_DECL void note(net::peer_index to, net::operation sent, std::size_t messages);
  /// To this peer, and not out yet. A row's messages that go by one path count until the last of them is out.
  CAUSEWAY_DECL [[nodiscard]] std::size_t handed_over(net::peer_index to);

  /// Whose messages are passed on while anybody waits.
  [[nodiscard]] std::vector<tree_relays*>& relays() noexcept { return relays_; }

 private:
  struct entry {
    net::peer_index to;
    net::operation sent;
    std::size_t messages;
  };
  const net::any_transport* lines_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::vector<entry> entries_;
  std::vector<tree_relays*> relays_;
};

/// Which way a row goes along the link between a peer and its parent.
enum class tree_way : std::uint8_t { up, down };

/// One conversation along a tree. A link is named by the peer at its lower end, the child. At most 8 auxiliary paths of a
/// link are used in each direction, none that is slower than 2 · limit + 2 messages on the link itself, and one fewer than
/// a row has messages: rows of one message go directly, and nothing is sent to relays. Bytes: what goes by a path, once
/// more for each peer in between; empty messages by the others. Memory: (limit + 1) · message_bytes for each path that ends
/// here or leads through here. Stays where it is. Not thread-safe.
class tree_relays {
 public:
  explicit tree_relays(const relay_options& options = {}) : options_{options} {}
  tree_relays(const tree_relays&) = delete;
  tree_relays& operator=(const tree_relays&) = delete;
  ~tree_relays() { close(); }

  /// Queues that several exchanges of this peer have in common: who waits for one of them passes on what comes for any.
  /// Without, only this one's count. Before `open`.
  void share(std::shared_ptr<line_queues> queues) { queues_ = std::move(queues); }
  /// What links cost from the next conversation on, equal on all peers; none: all alike.
  CAUSEWAY_DECL void follow(std::vector<double> costs);

  /// `parents`: of each peer, the root's is itself. `row_bytes`: of the largest row, equal on all peers, as all here.
  CAUSEWAY_DECL void open(const exchange_port& port, const std::vector<net::peer_index>& parents, std::size_t row_bytes);
  /// Sends on their way what of `row` goes by third peers to this child or, up, to the parent `to`. The caller sends the
  /// rest, `row`'s beginning, and notes it.
  CAUSEWAY_DECL std::span<const std::byte> push(tree_way way, net::peer_index to, std::span<const std::byte> row);
  CAUSEWAY_DECL void note(net::peer_index to, net::operation sent, std::size_t bytes);
  /// As talk.wait, of a conversation on the same port; meanwhile whatever comes for others is passed on.
  CAUSEWAY_DECL result<std::size_t> wait(conversation& talk, std::size_t place, net::peer_index peer, time_point deadline);
  /// Appends to the `got` bytes of the row on this child's link in `room` what came by third peers. Their number now; 0 if
  /// that is more than a row may have.
  CAUSEWAY_DECL result<std::size_t> collect(tree_way way, net::peer_index child, std::span<std::byte> room, std::size_t got,
                                            time_point deadline);
  /// Passes on all that is left of this way, whatever comes first.
  CAUSEWAY_DECL result<void> pass_on(tree_way way, time_point deadline);
  /// Waits for what was sent, and ends the conversation.
  CAUSEWAY_DECL result<void> finish(time_point deadline);
  CAUSEWAY_DECL void close();

 private:
  /// A message that comes here: to be passed on, or, where `next` is this peer, at its end.
  struct hop {
    tree_way way;
    net::peer_index child, before, next;
  };
  /// An auxiliary path that begins here.
  struct start {
    tree_way way;
    net::peer_index child, first;
  };

  CAUSEWAY_DECL void plan(const std::vector<net::peer_index>& parents);
  CAUSEWAY_DECL void plan_link(tree_way way, net::peer_index child);
  /// Until `wait` returns at once.
  CAUSEWAY_DECL result<void> until(conversation& talk, std::size_t place, time_point deadline);
  /// Passes on what has come. Whom it came from no more, `until` says.
  CAUSEWAY_DECL void pass_on_what_came();
  [[nodiscard]] bool waits_for(std::size_t i) const {
    return talk_.is_open() && hops_[i].next != self_ && talk_.at(i) != 0;
  }

  [[nodiscard]] std::size_t messages(std::size_t bytes) const {
    return (bytes + options_.message_bytes - 1) / options_.message_bytes;
  }
  // Each hop has a place to receive in, a place to send from, and a slot; then come the places of the starts.
  [[nodiscard]] std::span<std::byte> slot(std::size_t i) { return {memory_.data() + i * slot_bytes_, slot_bytes_}; }
  [[nodiscard]] static part part_of(tree_way way, net::peer_index child) {
    return {2 + static_cast<std::uint32_t>(way), child};
  }

  relay_options options_;
  std::shared_ptr<line_queues> queues_;
  std::vector<double> costs_;

  // The plan, and what it is for.
  net::peer_index self_ = 0;
  std::vector<net::peer_index> parents_;
  std::size_t most_paths_ = 0;
  std::vector<hop> hops_;
  std::vector<start> starts_;

  result<void> passed_on_;
  std::vector<net::operation> awaited_;
  std::size_t slot_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/tree_relays.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP
