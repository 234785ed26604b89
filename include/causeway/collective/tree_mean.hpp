// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP

// Up a tree and down again: each peer adds its children's sums to its own values and sends the sum to its parent; the root
// divides, and the mean goes down the same way, as the bytes that the root made of it. Nobody talks to more than a few
// others. Everybody, the root too, takes what those bytes decode to: the same bits everywhere. While too much waits for the
// line to a parent or a child, the end of a row may go by third peers (collective/tree_relays.hpp).

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/link_trees.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/tree_relays.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct tree_options {
  std::uint32_t arity = 2;   ///< children of a peer; 0: all are the root's
  net::peer_index root = 0;  ///< modulo the peers; the others follow it in the order of their indices, level by level
  std::vector<net::peer_index> parents{};  ///< none: so; else of each peer, the root's is itself (link_trees.hpp)
  relay_options relays{};                  ///< what goes by third peers: nothing
};

/// Models Exchange. `turn` takes the sums up, `finish` the mean down. A peer sends a row encoded by UpCodec to its parent
/// and one encoded by DownCodec to each child, and 16 bytes more for each message; 2 · depth latencies, each of a whole
/// row: for small rows and many peers. What is lost when a sum is encoded is lost for good: there is no residual. With
/// `relays` peers pass parts of others' rows on, for which they wait in `turn` and `finish`.
template <class UpCodec, class DownCodec = UpCodec>
class tree_mean {
  static_assert(!UpCodec::traits.sparse && !UpCodec::traits.transform, "partial sums need all coordinates, as values");

 public:
  static constexpr std::string_view name = "tree_mean";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = false};

  explicit tree_mean(tree_options options = {}, UpCodec up = UpCodec{}, DownCodec down = DownCodec{})
      : options_{std::move(options)},
        up_{std::move(up)},
        down_{std::move(down)},
        relays_{std::make_unique<tree_relays>(options_.relays)} {}

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> {
    CAUSEWAY_EXPECT(row.residual.empty() && row.counts.empty());
    cancel();
    peers_ = port.transport.size();
    self_ = port.transport.self();
    CAUSEWAY_EXPECT(options_.parents.empty() || options_.parents.size() == peers_);
    take_place();
    lay_out(row.values.size(), ctx);
    talk_.open(port, kinds * peers_);
    relays_->open(port, parents_, std::max(up_slot_, down_slot_));
    for (std::size_t i = 0; i < children_.size(); ++i) {
      talk_.receive(place(sum_in, children_[i]), children_[i], part{0}, from_child(i));
    }
    if (!is_root()) talk_.receive(place(mean_in, parent_), parent_, part{1}, mean_message());
    if (children_.empty() && !is_root()) send_sum(row, ctx);
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    return closing(take_up(port, row, ctx));
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    CAUSEWAY_TRY(closing(take_down(port.options.deadline)));
    const peer_message m = detail::read_message(parent_, mean_message().first(mean_bytes_), count_, peers_);
    const std::optional<refusal> bad = detail::adopt_message(down_, ctx, m, row.values);
    CAUSEWAY_TRY(closing(finish_sends(port.options.deadline)));
    if (bad) return to_error(*bad, peers_);
    return {};
  }

  void cancel() {
    relays_->close();
    talk_.close();
  }

  /// The tree from the next conversation on, and what links cost; equal on all peers.
  void follow(std::vector<net::peer_index> parents, const std::vector<double>& costs) {
    options_.parents = std::move(parents);
    relays_->follow(costs);
  }
  /// Queues of messages that several exchanges have in common.
  void share(std::shared_ptr<line_queues> queues) { relays_->share(std::move(queues)); }

 private:
  enum kind : std::size_t { sum_in, sum_out, mean_in, mean_out, kinds };

  // --- the tree ----------------------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_root() const { return parent_ == self_; }
  /// Whose child this peer is, and who are its own, by index counted from the root.
  void take_place() {
    parents_ = options_.parents.empty() ? index_tree(peers_, options_.root, options_.arity) : options_.parents;
    parent_ = parents_[self_];
    children_.clear();
    const net::peer_index root = root_of(parents_);
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = (root + i) % peers_;
      if (parents_[p] == self_) children_.push_back(p);
    }
  }

  /// An error ends the conversation.
  result<void> closing(result<void> outcome) {
    if (!outcome) cancel();
    return outcome;
  }

  // --- places of operations, slots of bytes: the own sum, the mean, the children's sums -----------------------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> own_sum() { return {memory_.data(), up_slot_}; }
  [[nodiscard]] std::span<std::byte> mean_message() { return {memory_.data() + up_slot_, down_slot_}; }
  [[nodiscard]] std::span<std::byte> from_child(std::size_t i) {
    return {memory_.data() + up_slot_ + down_slot_ + i * up_slot_, up_slot_};
  }

  /// Sends what of a row goes directly, and by third peers the rest.
  void send(kind what, tree_way way, net::peer_index to, std::span<const std::byte> row) {
    const std::span<const std::byte> direct = relays_->push(way, to, row);
    const part message{static_cast<std::uint32_t>(way)};
    relays_->note(to, talk_.send(place(what, to), to, message, direct), direct.size());
  }

  void lay_out(std::size_t count, const auto& ctx) {
    up_slot_ = detail::message_slot(up_.most_bytes(ctx, count));
    down_slot_ = detail::message_slot(down_.most_bytes(ctx, count));
    const std::size_t bytes = (1 + children_.size()) * up_slot_ + down_slot_;
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    if (sum_.size() < count) sum_ = aligned_buffer<float>{count};
    count_ = count;
    sums_.clear();
  }

  // --- up -----------------------------------------------------------------------------------------------------------

  result<void> take_up(const exchange_port& port, const exchange_row& row, const auto& ctx) {
    for (std::size_t i = 0; i < children_.size(); ++i) CAUSEWAY_TRY(take_sum(port.options.deadline, children_[i], i));
    if (is_root()) {
      make_mean(row, ctx);
      pass_down();
    } else if (!children_.empty()) {
      send_sum(row, ctx);
    }
    return relays_->pass_on(tree_way::up, port.options.deadline);
  }

  result<void> take_sum(time_point deadline, net::peer_index child, std::size_t i) {
    CAUSEWAY_ASSIGN(std::size_t moved, relays_->wait(talk_, place(sum_in, child), child, deadline));
    CAUSEWAY_ASSIGN(moved, relays_->collect(tree_way::up, child, from_child(i), moved, deadline));
    sums_.push_back(detail::read_message(child, from_child(i).first(moved), count_, peers_));
    return {};
  }

  /// sum_ = the own values and the children's sums, each as often as it counts; `weight` becomes how much that is.
  std::optional<refusal> add_up(const exchange_row& row, const auto& ctx, float& weight) {
    const std::span<float> sum{sum_.data(), count_};
    std::optional<refusal> bad;
    for (const peer_message& m : sums_) {
      if (m.bad) note(bad, *m.bad);
    }
    weight = row.weight;
    if (row.refused != errc{}) note(bad, {self_, row.refused});
    if (!bad && !detail::weighted(ctx.pool, row.values, weight, sum)) note(bad, {self_, errc::non_finite});
    for (const peer_message& m : sums_) {
      if (bad || m.weight == 0) continue;
      weight += m.weight;
      const auto added = up_.decode_add(ctx, m.bytes, sum, 1.0F, {});
      if (!added) note(bad, {m.peer, added.error().code});
    }
    return bad;
  }

  void send_sum(const exchange_row& row, const auto& ctx) {
    float weight = 0;
    std::optional<refusal> bad = add_up(row, ctx, weight);
    const std::span<std::byte> room = own_sum();
    const std::span<std::byte> values = room.subspan(message_header_bytes);
    const std::span<float> sum{sum_.data(), count_};
    std::size_t used = 0;
    if (!bad && weight > 0) used = up_.encode(ctx, sum, values);
    if (used > 0 && !detail::is_finite(up_, ctx, values.first(used), sum)) bad = refusal{peers_, errc::non_finite};
    if (bad) used = 0;
    detail::write_header(room, bad ? 0.0F : weight, count_, bad.value_or(detail::no_refusal));
    used += message_header_bytes;
    send(sum_out, tree_way::up, parent_, room.first(used));
  }

  // --- down ---------------------------------------------------------------------------------------------------------

  void make_mean(const exchange_row& row, const auto& ctx) {
    const std::span<float> mean{sum_.data(), count_};
    float weight = 0;
    std::optional<refusal> bad = add_up(row, ctx, weight);
    const float factor = detail::mean_factor(double{weight});
    if (!bad && factor == 0) bad = refusal{peers_, errc::invalid_argument};
    if (!bad && !detail::scale_finite(ctx.pool, mean, factor)) bad = refusal{peers_, errc::non_finite};
    detail::write_header(mean_message(), bad ? 0.0F : 1.0F, count_, bad.value_or(detail::no_refusal));
    mean_bytes_ = message_header_bytes;
    if (!bad) mean_bytes_ += down_.encode(ctx, mean, mean_message().subspan(message_header_bytes));
  }

  void pass_down() {
    for (const net::peer_index child : children_) {
      send(mean_out, tree_way::down, child, mean_message().first(mean_bytes_));
    }
  }

  result<void> take_down(time_point deadline) {
    if (!is_root()) {
      CAUSEWAY_TRY(relays_->wait(talk_, place(sum_out, parent_), parent_, deadline));
      CAUSEWAY_ASSIGN(mean_bytes_, relays_->wait(talk_, place(mean_in, parent_), parent_, deadline));
      CAUSEWAY_ASSIGN(mean_bytes_, relays_->collect(tree_way::down, self_, mean_message(), mean_bytes_, deadline));
      pass_down();
    }
    return relays_->pass_on(tree_way::down, deadline);
  }

  result<void> finish_sends(time_point deadline) {
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(mean_out, p), p, deadline));
    CAUSEWAY_TRY(relays_->finish(deadline));
    talk_.close();
    return {};
  }

  tree_options options_;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::vector<net::peer_index> parents_;  // of each peer
  net::peer_index parent_ = 0;
  std::vector<net::peer_index> children_;
  std::size_t count_ = 0;
  std::size_t up_slot_ = 0;
  std::size_t down_slot_ = 0;
  std::size_t mean_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> sum_;
  std::vector<peer_message> sums_;       // of the children, in their order
  std::unique_ptr<tree_relays> relays_;  // stays where it is
  conversation talk_;                    // these two last: they go first, and cancel what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP
