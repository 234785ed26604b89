// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP

// Each peer owns a part of the row: it gets that part from everybody, averages, and sends the mean to everybody. Parts may
// differ in size: equal ones are the butterfly; one peer with everything is a parameter server, a few peers a sharded one,
// and peers without a part are its clients. A contribution is encoded once by its peer, a mean once by its owner, and all,
// the owner too, take what the bytes decode to: the same bits everywhere.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/server_residual.hpp>
#include <causeway/collective/shares.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct split_options {
  std::vector<double> shares{};  ///< how much each peer owns, in any unit; 0: a client. Empty: all the same
  bool server_residual = false;  ///< owners keep what encoding a mean loses, and add it to the next round's
};

/// Models Exchange. `turn` waits for the parts of this peer's share. With shares s_p that add up to 1, peer p sends
/// (1 - s_p) of a row encoded by UpCodec and (n-1) s_p of a row encoded by DownCodec, and 16 bytes more for each message; 2
/// latencies. Parts are cut at blocks of both codecs; each part is a row of its own for them. Memory: that of the messages.
///
/// The server residual makes it stateful: use one object for each row. A round is known by the step of its id: a second try
/// must have the same one.
template <class UpCodec, class DownCodec = UpCodec>
class split_mean {
 public:
  static constexpr std::string_view name = "split_mean";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = true, .residual = true, .counts = false, .stateful = true};

  explicit split_mean(split_options options = {}, UpCodec up = UpCodec{}, DownCodec down = DownCodec{})
      : options_{std::move(options)}, up_{std::move(up)}, down_{std::move(down)} {}

  [[nodiscard]] const split_options& options() const noexcept { return options_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> {
    CAUSEWAY_EXPECT(row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    talk_.close();
    CAUSEWAY_TRY(cut(row.values.size()));
    talk_.open(port, kinds * peers_);
    residual_.begin(port.id.step);
    lay_out(ctx);
    expect();
    for (std::uint32_t i = 0; i < peers_; ++i) send_part((self_ + i) % peers_, row, ctx);
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row&, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (size_of(self_) == 0) return {};
    std::optional<refusal> bad;
    messages_.clear();
    for (net::peer_index p = 0; p < peers_; ++p) {
      std::size_t moved = own_bytes_;
      if (p != self_) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(part_in, p), p, port.options.deadline));
      }
      messages_.push_back(
          detail::read_message(p, slot(p == self_ ? part_out : part_in, p).first(moved), size_of(self_), peers_));
      if (messages_.back().bad) note(bad, detail::refused_contribution(p, *messages_.back().bad));
    }
    const std::span<const std::byte> result = reduce(port, ctx, bad);
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index to = (self_ + i) % peers_;
      talk_.send(place(result_out, to), to, part{1}, result);
    }
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    const time_point deadline = port.options.deadline;
    // First the own sends: one that failed would never be answered.
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(part_out, p), p, deadline));
    std::optional<refusal> bad;
    messages_.clear();
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (size_of(p) == 0) continue;
      std::size_t moved = result_bytes_;
      if (p != self_) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(result_in, p), p, deadline));
      }
      messages_.push_back(detail::read_message(p, slot(result_in, p).first(moved), size_of(p), peers_));
      if (messages_.back().bad) note(bad, *messages_.back().bad);
    }
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(result_out, p), p, deadline));
    talk_.close();
    if (!bad) bad = adopt(row, ctx);
    if (bad) return to_error(*bad, peers_);
    residual_.finish();
    return {};
  }

  /// What owners keep from round to round.
  void serialize(auto& ar) { ar(residual_); }

  void cancel() { talk_.close(); }

 private:
  enum kind : std::size_t { part_out, part_in, result_in, result_out, kinds };

  // --- what belongs to whom ---------------------------------------------------------------------------------------------

  result<void> cut(std::size_t count) {
    const std::vector<double> equal(options_.shares.empty() ? peers_ : 0, 1.0);
    const std::span<const double> shares = options_.shares.empty() ? equal : options_.shares;
    if (shares.size() != peers_) {
      return fail(errc::invalid_argument, "split_mean",
                  std::to_string(shares.size()) + " shares for " + std::to_string(peers_) + " peers");
    }
    double total = 0;
    for (const double s : shares) total += s >= 0 ? s : std::nan("");
    if (!(total > 0) || !std::isfinite(total)) {
      return fail(errc::invalid_argument, "split_mean", "shares must be finite, not negative, and not all 0");
    }
    const std::size_t block = std::lcm(detail::block_of(up_), detail::block_of(down_));
    const std::vector<std::size_t> blocks = whole_parts((count + block - 1) / block, shares);
    cuts_.assign(1, 0);
    for (const std::size_t b : blocks) cuts_.push_back(std::min(cuts_.back() + b * block, count));
    return {};
  }
  [[nodiscard]] std::size_t size_of(net::peer_index owner) const { return cuts_[owner + 1] - cuts_[owner]; }
  [[nodiscard]] std::span<float> part_of(std::span<float> row, net::peer_index owner) const {
    return row.subspan(cuts_[owner], size_of(owner));
  }

  /// f(context of the owner's part).
  template <class X, class F>
  decltype(auto) with_part(const X& ctx, net::peer_index owner, F&& f) const {
    detail::matrix_list<X> matrices;
    return f(detail::context_of_part(ctx, owner, cuts_[owner], cuts_[owner + 1], matrices));
  }

  // --- places of operations, slots of bytes -------------------------------------------------------------------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> slot(kind what, net::peer_index p) {
    const std::size_t at = place(what, p);
    return {memory_.data() + slots_[at], slots_[at + 1] - slots_[at]};
  }

  template <class X>
  void lay_out(const X& ctx) {
    std::vector<std::size_t> up(peers_), down(peers_);
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (size_of(p) == 0) continue;
      with_part(ctx, p, [&](const X& part) {
        up[p] = detail::message_slot(up_.most_bytes(part, size_of(p)));
        down[p] = detail::message_slot(down_.most_bytes(part, size_of(p)));
      });
    }
    slots_.assign(1, 0);
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + up[p]);
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + (p == self_ ? 0 : up[self_]));
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + down[p]);
    if (memory_.size() < slots_.back()) memory_ = aligned_buffer<std::byte>{slots_.back()};
  }

  // --- phases -------------------------------------------------------------------------------------------------------

  void expect() {
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = (self_ + peers_ - i) % peers_;
      if (size_of(self_) > 0) talk_.receive(place(part_in, p), p, part{0}, slot(part_in, p));
      if (size_of(p) > 0) talk_.receive(place(result_in, p), p, part{1}, slot(result_in, p));
    }
  }

  /// Encodes what `owner` is to have, and sends it, but for the own part.
  template <class X>
  void send_part(net::peer_index owner, const exchange_row& row, const X& ctx) {
    if (size_of(owner) == 0) return;
    const std::span<std::byte> room = slot(part_out, owner);
    exchange_row own = row;
    own.values = part_of(row.values, owner);
    if (!row.residual.empty()) own.residual = part_of(row.residual, owner);
    const std::size_t bytes =
        with_part(ctx, owner, [&](const X& part) { return detail::write_contribution(up_, part, own, room, self_); });
    if (owner == self_) own_bytes_ = bytes;
    if (owner != self_) talk_.send(place(part_out, owner), owner, part{0}, room.first(bytes));
  }

  /// The message with the mean of the own part, or with the reason why there is none.
  template <class X>
  std::span<const std::byte> reduce(const exchange_port& port, const X& ctx, std::optional<refusal> bad) {
    const std::span<std::byte> room = slot(result_in, self_);
    result_bytes_ = message_header_bytes;
    if (!bad) {
      collective_workspace own;
      collective_workspace& workspace = port.options.workspace != nullptr ? *port.options.workspace : own;
      const std::size_t size = size_of(self_);
      const std::span<float> sum{reinterpret_cast<float*>(workspace.reserve(size * sizeof(float))), size};
      with_part(ctx, self_, [&](const X& part) {
        bad = add_up(part, sum);
        if (!bad) result_bytes_ += encode_mean(part, sum, room.subspan(message_header_bytes));
      });
    }
    detail::write_header(room, bad ? 0.0F : 1.0F, size_of(self_), bad.value_or(detail::no_refusal));
    return room.first(result_bytes_);
  }

  std::optional<refusal> add_up(const auto& part, std::span<float> sum) {
    kernels::zero(part.pool, sum.data(), static_cast<std::int64_t>(sum.size()));
    double total = 0;
    for (const peer_message& m : messages_) {
      if (m.weight == 0) continue;
      total += m.weight;
      if (auto added = up_.decode_add(part, m.bytes, sum, m.weight, {}); !added) return refusal{m.peer, added.error().code};
    }
    const float factor = detail::mean_factor(total);
    if (factor == 0) return refusal{peers_, errc::invalid_argument};
    if (!detail::scale_finite(part.pool, sum, factor)) return refusal{peers_, errc::non_finite};
    detail::invert(up_, part, sum);
    return std::nullopt;
  }

  std::size_t encode_mean(const auto& part, std::span<float> mean, std::span<std::byte> room) {
    if (!options_.server_residual) return down_.encode(part, mean, room);
    residual_.add_to(cuts_[self_], mean);
    return detail::encode_keeping(down_, part, mean, room, residual_.next(cuts_[self_], mean.size()));
  }

  template <class X>
  std::optional<refusal> adopt(const exchange_row& row, const X& ctx) {
    std::optional<refusal> bad;
    detail::clear(down_, ctx.pool, row.values);
    for (const peer_message& m : messages_) {
      const std::span<float> target = part_of(row.values, m.peer);
      with_part(ctx, m.peer, [&](const X& part) {
        const auto added = down_.decode_add(part, m.bytes, target, 1.0F, {});
        if (!added) note(bad, {m.peer, added.error().code});
        if (added) detail::invert(down_, part, target);
      });
    }
    return bad;
  }

  split_options options_;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t own_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  std::vector<std::size_t> cuts_;   // part p is [cuts_[p], cuts_[p + 1])
  std::vector<std::size_t> slots_;  // slot i is [slots_[i], slots_[i + 1])
  aligned_buffer<std::byte> memory_;
  std::vector<peer_message> messages_;
  server_residual residual_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP
