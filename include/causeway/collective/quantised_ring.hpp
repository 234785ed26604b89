// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP
#define CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP

// All-reduce around a ring with encoded bytes on every hop, as PRIME does it with 8 bits: a partial sum is encoded, the
// next peer decodes it, adds its own values in f32 and encodes the sum anew. The peer that completes a segment divides it
// and encodes it once more; those bytes go round as they are, and all peers, that one too, take what they decode to: the
// same bits everywhere. A segment travels as two chunks, so that one is on its way while the other is worked on.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. `turn` takes the sums around the ring (n-1 hops), `finish` the means (n-1 hops). A peer sends
/// 2 (n-1)/n of a row in encoded form, and 16 bytes for each of its 4 (n-1) messages, to its right neighbour only. Partial
/// sums are encoded n-1 times on their way, so the loss grows with the number of peers, where split_mean encodes each
/// contribution once; there is no own message, hence no residual. Memory: 8 chunks of 1/2n of a row in encoded form.
///
/// The ring is that of the peers' indices: give the port a group_view to have another order (see ring_order).
template <class Codec>
class quantised_ring {
  static_assert(!Codec::traits.sparse && !Codec::traits.transform, "partial sums need all coordinates, as values");

 public:
  static constexpr std::string_view name = "quantised_ring";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = false};

  explicit quantised_ring(Codec codec = Codec{}) : codec_{std::move(codec)} {}

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    CAUSEWAY_EXPECT(row.weight >= 0 && row.residual.empty() && row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    talk_.open(port, places);
    lay_out(row.values.size(), ctx);
    bad_.reset();
    if (hops() == 0) return {};
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) expect(0, chunk);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      encode_sum(0, chunk, row, ctx, peer_message{});
      send(0, chunk);
    }
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    for (std::size_t hop = 0; hop < hops() / 2; ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) CAUSEWAY_TRY(pass_sum(port, hop, chunk, row, ctx));
    }
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (peers_ == 1) return finish_alone(row, ctx);
    for (std::size_t hop = hops() / 2; hop < hops(); ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) CAUSEWAY_TRY(pass_mean(port, hop, chunk, row, ctx));
    }
    for (std::size_t place = 0; place < places; ++place) CAUSEWAY_TRY(talk_.finish(place, right(), port.options.deadline));
    talk_.close();
    if (bad_) return to_error(*bad_, peers_);
    return {};
  }

  void cancel() { talk_.close(); }

 private:
  static constexpr std::size_t chunks = 2;
  static constexpr std::size_t depth = 2;  // hops whose bytes are kept: those that arrive, and those that leave
  enum kind : std::size_t { out, in, kinds };
  static constexpr std::size_t places = kinds * depth * chunks;

  [[nodiscard]] net::peer_index right() const { return (self_ + 1) % peers_; }
  [[nodiscard]] net::peer_index left() const { return (self_ + peers_ - 1) % peers_; }
  [[nodiscard]] std::size_t hops() const { return 2 * (std::size_t{peers_} - 1); }

  // --- which values, which bytes ------------------------------------------------------------------------------------

  /// Where chunk `chunk` of what this peer sends at `hop` lies in the row; at hop + 1 it sends what it received at hop.
  [[nodiscard]] index_range range(std::size_t hop, std::size_t chunk) const {
    const std::size_t segment = (self_ + 2 * std::size_t{peers_} - hop % peers_) % peers_;
    return share_of(static_cast<std::int64_t>(count_), static_cast<unsigned>(segment * chunks + chunk),
                    static_cast<unsigned>(peers_ * chunks), static_cast<std::int64_t>(detail::block_of(codec_)));
  }
  [[nodiscard]] std::span<float> values(std::span<float> row, const index_range& r) const {
    return row.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()));
  }

  /// f(context of a chunk of the row): the same on all peers.
  template <class X, class F>
  decltype(auto) with_chunk(const X& ctx, const index_range& r, F&& f) const {
    detail::matrix_list<X> matrices;
    const auto begin = static_cast<std::size_t>(r.begin);
    return f(detail::context_of_part(ctx, begin, begin, static_cast<std::size_t>(r.end), matrices));
  }

  [[nodiscard]] std::size_t place(kind what, std::size_t hop, std::size_t chunk) const {
    return (what * depth + hop % depth) * chunks + chunk;
  }
  [[nodiscard]] std::span<std::byte> slot(kind what, std::size_t hop, std::size_t chunk) {
    return {memory_.data() + place(what, hop, chunk) * slot_, slot_};
  }
  [[nodiscard]] std::size_t& size_of_out(std::size_t hop, std::size_t chunk) {
    return sizes_[hop % depth * chunks + chunk];
  }

  template <class X>
  void lay_out(std::size_t count, const X& ctx) {
    count_ = count;
    slot_ = largest_ = 0;
    for (std::size_t hop = 0; hop < peers_; ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const index_range r = range(hop, chunk);
        largest_ = std::max(largest_, static_cast<std::size_t>(r.size()));
        const std::size_t most =
            with_chunk(ctx, r, [&](const X& part) { return codec_.most_bytes(part, static_cast<std::size_t>(r.size())); });
        slot_ = std::max(slot_, detail::message_slot(most));
      }
    }
    if (memory_.size() < places * slot_) memory_ = aligned_buffer<std::byte>{places * slot_};
    if (sum_.size() < largest_) sum_ = aligned_buffer<float>{largest_};
  }

  // --- messages -----------------------------------------------------------------------------------------------------

  void expect(std::size_t hop, std::size_t chunk) {
    talk_.receive(place(in, hop, chunk), left(), part{0, hop * chunks + chunk}, slot(in, hop, chunk));
  }
  void send(std::size_t hop, std::size_t chunk) {
    const std::span<const std::byte> message = slot(out, hop, chunk).first(size_of_out(hop, chunk));
    talk_.send(place(out, hop, chunk), right(), part{0, hop * chunks + chunk}, message);
  }

  /// What the left neighbour sent at `hop`; the next is asked for, and the room for what we send next is free.
  result<peer_message> take(const exchange_port& port, std::size_t hop, std::size_t chunk) {
    const time_point deadline = port.options.deadline;
    if (hop + 1 < hops()) expect(hop + 1, chunk);
    CAUSEWAY_ASSIGN(const std::size_t moved, talk_.wait(place(in, hop, chunk), left(), deadline));
    CAUSEWAY_TRY(talk_.finish(place(out, hop + 1, chunk), right(), deadline));
    const auto size = static_cast<std::size_t>(range(hop + 1, chunk).size());
    peer_message m = detail::read_message(left(), slot(in, hop, chunk).first(moved), size, peers_);
    if (m.bad) note(bad_, *m.bad);
    return m;
  }

  result<void> pass_sum(const exchange_port& port, std::size_t hop, std::size_t chunk, const exchange_row& row,
                        const auto& ctx) {
    CAUSEWAY_ASSIGN(const peer_message m, take(port, hop, chunk));
    encode_sum(hop + 1, chunk, row, ctx, m);
    send(hop + 1, chunk);
    return {};
  }

  /// Writes what this peer sends at `hop`: `so_far` and its own values; their mean, when they are the last ones.
  template <class X>
  void encode_sum(std::size_t hop, std::size_t chunk, const exchange_row& row, const X& ctx, const peer_message& so_far) {
    const index_range r = range(hop, chunk);
    const auto size = static_cast<std::size_t>(r.size());
    const std::span<std::byte> room = slot(out, hop, chunk);
    std::optional<refusal> bad = so_far.bad;
    const bool complete = hop + 1 == peers_;
    float weight = so_far.weight + row.weight;
    std::size_t used = 0;
    with_chunk(ctx, r, [&](const X& part) {
      if (!bad && row.refused != errc{}) bad = refusal{self_, row.refused};
      if (!bad) bad = add_up(part, values(row.values, r), row.weight, so_far);
      if (!bad && complete) bad = divide(part, size, weight);
      if (complete) weight = 1;
      if (bad) note(bad_, *bad);
      if (!bad && weight > 0) used = codec_.encode(part, {sum_.data(), size}, room.subspan(message_header_bytes));
      if (used > 0 && !detail::is_finite(codec_, part, room.subspan(message_header_bytes, used), {sum_.data(), size})) {
        bad = refusal{peers_, errc::non_finite};
        used = 0;
        note(bad_, *bad);
      }
    });
    detail::write_header(room, bad ? 0.0F : weight, size, bad.value_or(detail::no_refusal));
    size_of_out(hop, chunk) = message_header_bytes + used;
  }

  /// sum_ = own values times their weight, and what came before.
  std::optional<refusal> add_up(const auto& part, std::span<const float> own, float weight, const peer_message& so_far) {
    const std::span<float> sum{sum_.data(), own.size()};
    if (!detail::weighted(part.pool, own, weight, sum)) return refusal{self_, errc::non_finite};
    if (so_far.weight == 0) return std::nullopt;
    const auto added = codec_.decode_add(part, so_far.bytes, sum, 1.0F, {});
    if (added) return std::nullopt;
    return refusal{so_far.peer, added.error().code};
  }

  std::optional<refusal> divide(const auto& part, std::size_t size, float weight) {
    const float factor = detail::mean_factor(double{weight});
    if (factor == 0) return refusal{peers_, errc::invalid_argument};
    if (!detail::scale_finite(part.pool, {sum_.data(), size}, factor)) return refusal{peers_, errc::non_finite};
    return std::nullopt;
  }

  /// Takes a mean, and passes its bytes on. The own one is adopted when the first one arrives: it has left by then.
  result<void> pass_mean(const exchange_port& port, std::size_t hop, std::size_t chunk, const exchange_row& row,
                         const auto& ctx) {
    if (hop == hops() / 2) {
      const index_range r = range(hop, chunk);
      const auto own = slot(out, hop, chunk).first(size_of_out(hop, chunk));
      adopt(detail::read_message(self_, own, static_cast<std::size_t>(r.size()), peers_), r, row, ctx);
    }
    CAUSEWAY_ASSIGN(const peer_message m, take(port, hop, chunk));
    if (hop + 1 < hops()) {
      const std::size_t size = m.bad ? message_header_bytes : message_header_bytes + m.bytes.size();
      const std::span<std::byte> next = slot(out, hop + 1, chunk);
      std::memcpy(next.data(), slot(in, hop, chunk).data(), size);
      if (m.bad)
        detail::write_header(next, 0, static_cast<std::size_t>(range(hop + 1, chunk).size()),
                             m.bad.value_or(detail::no_refusal));
      size_of_out(hop + 1, chunk) = size;
      send(hop + 1, chunk);
    }
    adopt(m, range(hop + 1, chunk), row, ctx);
    return {};
  }

  template <class X>
  void adopt(const peer_message& m, const index_range& r, const exchange_row& row, const X& ctx) {
    if (m.bad) return;
    with_chunk(ctx, r, [&](const X& part) {
      if (const auto bad = detail::adopt_message(codec_, part, m, values(row.values, r))) note(bad_, *bad);
    });
  }

  result<void> finish_alone(const exchange_row& row, const auto& ctx) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      encode_sum(0, chunk, row, ctx, peer_message{});
      const index_range r = range(0, chunk);
      const auto own = slot(out, 0, chunk).first(size_of_out(0, chunk));
      adopt(detail::read_message(self_, own, static_cast<std::size_t>(r.size()), peers_), r, row, ctx);
    }
    talk_.close();
    if (bad_) return to_error(*bad_, peers_);
    return {};
  }

  Codec codec_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t count_ = 0;
  std::size_t largest_ = 0;  // values of a chunk
  std::size_t slot_ = 0;
  std::size_t sizes_[depth * chunks] = {};  // of what leaves
  std::optional<refusal> bad_;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> sum_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP
