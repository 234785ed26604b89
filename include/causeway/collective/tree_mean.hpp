// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP

// Up a tree and down again: each peer adds its children's sums to its own values and sends the sum to its parent; the root
// divides, and the mean goes down the same way, as the bytes that the root made of it. Nobody talks to more than a few
// others. Everybody, the root too, takes what those bytes decode to: the same bits everywhere.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct tree_options {
  std::uint32_t arity = 2;   ///< children of a peer, at least 1
  net::peer_index root = 0;  ///< modulo the peers; the others follow it in the order of their indices, level by level
  std::vector<net::peer_index> parents{};  ///< none: so; else of each peer, the root's is itself (link_trees.hpp)
};

/// Models Exchange. `turn` takes the sums up, `finish` the mean down. A peer sends a row encoded by UpCodec to its parent
/// and one encoded by DownCodec to each child, and 16 bytes more for each message; 2 · depth latencies, each of a whole
/// row: for small rows and many peers. What is lost when a sum is encoded is lost for good: there is no residual.
template <class UpCodec, class DownCodec = UpCodec>
class tree_mean {
  static_assert(!UpCodec::traits.sparse && !UpCodec::traits.transform, "partial sums need all coordinates, as values");

 public:
  static constexpr std::string_view name = "tree_mean";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = false};

  explicit tree_mean(tree_options options = {}, UpCodec up = UpCodec{}, DownCodec down = DownCodec{})
      : options_{options}, up_{std::move(up)}, down_{std::move(down)} {}

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> {
    CAUSEWAY_EXPECT(row.residual.empty() && row.counts.empty());
    peers_ = port.transport.size();
    CAUSEWAY_EXPECT(options_.arity > 0);
    self_ = port.transport.self();
    CAUSEWAY_EXPECT(options_.parents.empty() || options_.parents.size() == peers_);
    take_place();
    talk_.open(port, kinds * peers_);
    lay_out(row.values.size(), ctx);
    for (std::size_t i = 0; i < children_.size(); ++i) {
      talk_.receive(place(sum_in, children_[i]), children_[i], part{0}, from_child(i));
    }
    if (!is_root()) talk_.receive(place(mean_in, parent_), parent_, part{1}, mean_message());
    if (children_.empty() && !is_root()) send_sum(row, ctx);
    return {};
  }

  template <MessageContext X>
  result<void> turn(const exchange_port& port, const exchange_row& row, const X& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (children_.empty() && !is_root()) return {};
    for (std::size_t i = 0; i < children_.size(); ++i) CAUSEWAY_TRY(take_sum(port, children_[i], i));
    if (!is_root()) {
      send_sum(row, ctx);
      return {};
    }
    make_mean(row, ctx);
    pass_down();
    return {};
  }

  template <MessageContext X>
  result<void> finish(const exchange_port& port, const exchange_row& row, const X& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    const time_point deadline = port.options.deadline;
    if (!is_root()) {
      CAUSEWAY_TRY(talk_.finish(place(sum_out, parent_), parent_, deadline));
      CAUSEWAY_ASSIGN(mean_bytes_, talk_.wait(place(mean_in, parent_), parent_, deadline));
      pass_down();
    }
    std::optional<refusal> bad = adopt(row, ctx);
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(mean_out, p), p, deadline));
    talk_.close();
    if (bad) return to_error(*bad, peers_);
    return {};
  }

  void cancel() { talk_.close(); }

  /// The tree from the next conversation on; equal on all peers.
  void follow(std::vector<net::peer_index> parents) { options_.parents = std::move(parents); }

 private:
  enum kind : std::size_t { sum_in, sum_out, mean_in, mean_out, kinds };

  // --- the tree ----------------------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_root() const { return parent_ == self_; }
  /// Whose child this peer is, and who are its own; by index they are at positions 0 to n-1, level by level.
  void take_place() {
    children_.clear();
    if (!options_.parents.empty()) {
      parent_ = options_.parents[self_];
      for (net::peer_index p = 0; p < peers_; ++p) {
        if (p != self_ && options_.parents[p] == self_) children_.push_back(p);
      }
      return;
    }
    const auto peer_at = [&](std::uint64_t position) {
      return static_cast<net::peer_index>((position + options_.root) % peers_);
    };
    const std::uint64_t position = (self_ + peers_ - options_.root % peers_) % peers_;
    parent_ = position == 0 ? self_ : peer_at((position - 1) / options_.arity);
    for (std::uint64_t c = 1; c <= options_.arity && position * options_.arity + c < peers_; ++c) {
      children_.push_back(peer_at(position * options_.arity + c));
    }
  }

  // --- places of operations, slots of bytes: the own sum, the mean, the children's sums
  // -------------------------------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> own_sum() { return {memory_.data(), up_slot_}; }
  [[nodiscard]] std::span<std::byte> mean_message() { return {memory_.data() + up_slot_, down_slot_}; }
  [[nodiscard]] std::span<std::byte> from_child(std::size_t i) {
    return {memory_.data() + up_slot_ + down_slot_ + i * up_slot_, up_slot_};
  }

  template <class X>
  void lay_out(std::size_t count, const X& ctx) {
    up_slot_ = detail::message_slot(up_.most_bytes(ctx, count));
    down_slot_ = detail::message_slot(down_.most_bytes(ctx, count));
    const std::size_t bytes = (1 + children_.size()) * up_slot_ + down_slot_;
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    if (sum_.size() < count) sum_ = aligned_buffer<float>{count};
    count_ = count;
    sums_.clear();
  }

  // --- up
  // -------------------------------------------------------------------------------------------------------------------

  result<void> take_sum(const exchange_port& port, net::peer_index child, std::size_t i) {
    CAUSEWAY_ASSIGN(const std::size_t moved, talk_.wait(place(sum_in, child), child, port.options.deadline));
    sums_.push_back(detail::read_message(child, from_child(i).first(moved), count_, peers_));
    return {};
  }

  /// sum_ = the own values and the children's sums, each as often as it counts; `weight` becomes how much that is.
  template <class X>
  std::optional<refusal> add_up(const exchange_row& row, const X& ctx, float& weight) {
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

  template <class X>
  void send_sum(const exchange_row& row, const X& ctx) {
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
    talk_.send(place(sum_out, parent_), parent_, part{0}, room.first(used));
  }

  // --- down
  // -----------------------------------------------------------------------------------------------------------------

  template <class X>
  void make_mean(const exchange_row& row, const X& ctx) {
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
      talk_.send(place(mean_out, child), child, part{1}, mean_message().first(mean_bytes_));
    }
  }

  template <class X>
  std::optional<refusal> adopt(const exchange_row& row, const X& ctx) {
    const peer_message m = detail::read_message(parent_, mean_message().first(mean_bytes_), count_, peers_);
    if (m.bad) return m.bad;
    kernels::zero(ctx.pool, row.values.data(), static_cast<std::int64_t>(count_));
    const auto added = down_.decode_add(ctx, m.bytes, row.values, 1.0F, {});
    if (!added) return refusal{m.peer, added.error().code};
    detail::invert(down_, ctx, row.values);
    return std::nullopt;
  }

  tree_options options_;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  net::peer_index parent_ = 0;
  std::vector<net::peer_index> children_;
  std::size_t count_ = 0;
  std::size_t up_slot_ = 0;
  std::size_t down_slot_ = 0;
  std::size_t mean_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> sum_;
  std::vector<peer_message> sums_;  // of the children, in their order
  conversation talk_;               // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP
