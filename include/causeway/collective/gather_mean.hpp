// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP

// Everybody's whole message to everybody. The topology for sparse codecs whose peers choose coordinates for themselves: a
// sum of such messages is no longer small, so nobody sums on the way. Each peer decodes all messages, its own too, in the
// order of the peers: the same bytes in the same order, hence the same bits everywhere.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. One phase: `turn` does nothing. A peer sends n-1 times its message and 16 bytes; 1 latency. Weights
/// travel with the messages; a peer of weight 0 sends 16 bytes. Memory: n messages of the codec's largest size.
template <class Codec, class Aggregation = mean>
class gather_mean {
 public:
  static constexpr std::string_view name = "gather_mean";
  static constexpr exchange_traits traits{.bit_parity = true,
                                          .own_support = true,
                                          .residual = true,
                                          .counts = Aggregation::counts,
                                          .stateful = false,
                                          .changes_one = Aggregation::changes_one};

  explicit gather_mean(Codec codec = Codec{}, Aggregation aggregator = Aggregation{})
      : codec_{std::move(codec)}, aggregator_{std::move(aggregator)} {}

  [[nodiscard]] const Codec& codec() const noexcept { return codec_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    const net::peer_index self = port.transport.self();
    const std::uint32_t peers = port.transport.size();
    talk_.open(port, 2 * std::size_t{peers});
    slot_ = detail::message_slot(codec_.most_bytes(ctx, row.values.size()));
    if (memory_.size() < slot_ * peers) memory_ = aligned_buffer<std::byte>{slot_ * peers};
    own_bytes_ = detail::write_contribution(codec_, ctx, row, slot(self), self);
    for (std::uint32_t i = 1; i < peers; ++i) {
      const net::peer_index from = (self + peers - i) % peers;
      talk_.receive(from, from, part{}, slot(from));
    }
    for (std::uint32_t i = 1; i < peers; ++i) {
      const net::peer_index to = (self + i) % peers;
      talk_.send(peers + to, to, part{}, slot(self).first(own_bytes_));
    }
    return {};
  }

  result<void> turn(const exchange_port&, const exchange_row&, const MessageContext auto&) { return {}; }

  template <MessageContext X>
  result<void> finish(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    CAUSEWAY_EXPECT(talk_.is_open());
    const std::uint32_t peers = port.transport.size();
    std::optional<refusal> bad;
    double total = 0;
    messages_.clear();
    for (net::peer_index p = 0; p < peers; ++p) {
      std::size_t moved = own_bytes_;
      if (p != port.transport.self()) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(p, p, port.options.deadline));
      }
      const peer_message m = detail::read_message(p, slot(p).first(moved), row.values.size(), peers);
      if (m.bad && !Aggregation::drops_unusable) note(bad, detail::refused_contribution(p, *m.bad));
      if (m.bad || m.weight == 0) continue;
      total += m.weight;
      messages_.push_back(m);
    }
    for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(talk_.finish(peers + p, p, port.options.deadline));
    talk_.close();
    if (!bad) bad = combine(port, row, ctx, total);
    if (bad) return to_error(*bad, peers);
    return {};
  }

  void cancel() { talk_.close(); }

 private:
  [[nodiscard]] std::span<std::byte> slot(net::peer_index p) { return {memory_.data() + p * slot_, slot_}; }

  template <class X>
  std::optional<refusal> combine(const exchange_port& port, const exchange_row& row, const X& ctx, double total) {
    static_assert(Aggregator<Aggregation, Codec, X>);
    const std::size_t n = row.values.size();
    const std::uint32_t peers = port.transport.size();
    const float factor = detail::mean_factor(total);
    if (factor == 0) return refusal{peers, errc::invalid_argument};
    collective_workspace own;
    float* const scratch = reserve(port.options.workspace != nullptr ? *port.options.workspace : own, row.values);
    detail::clear(codec_, ctx.pool, row.values);
    detail::clear(codec_, ctx.pool, row.counts);
    return aggregator_.combine(aggregation<Codec, X>{codec_,
                                                     ctx,
                                                     messages_,
                                                     total,
                                                     factor,
                                                     peers,
                                                     row.values,
                                                     Aggregation::counts ? row.counts : std::span<float>{},
                                                     {scratch, Aggregation::scratch_rows * n}});
  }

  /// The aggregator's rows of working memory: where the codec keeps this row, they lie beside it from then on.
  float* reserve(collective_workspace& workspace, std::span<const float> row) {
    const std::size_t count = Aggregation::scratch_rows * row.size();
    if constexpr (detail::may_keep_rows<Codec>) {
      if (count > 0 && detail::is_kept(codec_, row)) {
        if (scratch_.size() < count) scratch_ = aligned_buffer<float>{count, detail::row_codec(codec_).memory()};
        return scratch_.data();
      }
    }
    return reinterpret_cast<float*>(workspace.reserve(count * sizeof(float)));
  }

  Codec codec_;
  Aggregation aggregator_;
  std::size_t slot_ = 0;
  std::size_t own_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> scratch_;
  std::vector<peer_message> messages_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP
