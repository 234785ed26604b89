// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP

// For peers that sit in regions with slow lines between them: each region's mean is made at its hub, the hubs average those
// among themselves with an exchange of their own, and pass the result on (the hubs of Gaia). What crosses regions grows
// with the number of regions, not of peers. All hubs hold the same bits and encode them in the same way, and all peers,
// hubs too, take what those bytes decode to: the same bits everywhere.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Tells all peers this one's region, and finds out which ones there are.
CAUSEWAY_DECL result<void> gather_regions(const exchange_port& port, const region_label& label, region_list& found);

/// The region that a peer is in. errc::invalid_argument: they do not name each of `peers` peers once.
CAUSEWAY_DECL result<std::size_t> region_of(net::peer_index peer, const region_list& regions, std::uint32_t peers);

/// A transport that stays where it is when its owner moves. Assigning swaps: what still talks over it goes after it.
class held_transport {
 public:
  held_transport() = default;
  held_transport(held_transport&&) noexcept = default;
  held_transport& operator=(held_transport&& other) noexcept;

  CAUSEWAY_DECL void hold(group_view group);
  [[nodiscard]] net::any_transport& get() const noexcept { return *transport_; }

 private:
  std::unique_ptr<net::any_transport> transport_;
};

}  // namespace detail

/// Models Exchange. `turn` makes the region's mean and begins the exchange among hubs, `finish` ends that and takes the
/// result to the region. A peer sends a row encoded by UpCodec to its hub; a hub sends what `Across` sends for as many
/// peers as there are regions, and a row encoded by DownCodec to each peer of its region; 16 bytes more for each message. 2
/// latencies within a region and those of `Across`.
///
/// Regions are the given ones, or, after `set_label`, those that the peers say, in a message of 4 bytes to each
/// other peer, which `begin` waits for: a latency more, of the longest line. The result is the same, whatever the regions.
///
/// The residual is what the own message left out. What `Across` loses of a region's mean is lost, unless it keeps that
/// itself (split_options::server_residual). Where a region has values that cannot be used, its own peers are told whose,
/// the others the name of its hub.
template <class UpCodec, class Across = split_mean<UpCodec>, class DownCodec = UpCodec>
class two_level_mean {
 public:
  static constexpr std::string_view name = "two_level_mean";
  static constexpr exchange_traits traits{.bit_parity = Across::traits.bit_parity,
                                          .own_support = Across::traits.own_support,
                                          .residual = true,
                                          .counts = false,
                                          .stateful = Across::traits.stateful};

  explicit two_level_mean(region_list regions, Across across = Across{}, UpCodec up = UpCodec{},
                          DownCodec down = DownCodec{})
      : regions_{std::move(regions)}, up_{std::move(up)}, down_{std::move(down)}, across_{std::move(across)} {}

  /// From now on regions are what the peers say, all of them. `fewest`: equal on all.
  void set_label(const region_label& label) { label_ = label, asks_ = true; }
  [[nodiscard]] const region_list& regions() const noexcept { return regions_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> && Exchange<Across, X> {
    CAUSEWAY_EXPECT(row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    cancel();
    if (asks_) CAUSEWAY_TRY(detail::gather_regions(port, label_, regions_));
    CAUSEWAY_TRY(find_region());
    talk_.open(port, kinds * peers_);
    lay_out(row.values.size(), ctx);
    own_bytes_ = detail::write_contribution(up_, ctx, row, from_member(0), self_);
    if (!is_hub()) {
      talk_.receive(place(result_in, hub()), hub(), part{1}, result_message());
      talk_.send(place(up_out, hub()), hub(), part{0}, from_member(0).first(own_bytes_));
      return {};
    }
    for (std::size_t i = 1; i < mine().size(); ++i)
      talk_.receive(place(up_in, mine()[i]), mine()[i], part{0}, from_member(i));
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (!is_hub()) return {};
    messages_.clear();
    for (std::size_t i = 0; i < mine().size(); ++i) {
      std::size_t moved = own_bytes_;
      if (i > 0) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(up_in, mine()[i]), mine()[i], port.options.deadline));
      }
      messages_.push_back(detail::read_message(mine()[i], from_member(i).first(moved), row.values.size(), peers_));
    }
    reduce(ctx);
    std::vector<net::peer_index> hubs;
    for (const auto& r : regions_) hubs.push_back(r.front());
    hubs_.hold(group_view{port.transport, std::move(hubs)});
    CAUSEWAY_TRY(closing(across_.begin(port.beside(hubs_.get()), row_of_region(), ctx)));
    return closing(across_.turn(port.beside(hubs_.get()), row_of_region(), ctx));
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    const time_point deadline = port.options.deadline;
    if (is_hub()) {
      CAUSEWAY_TRY(finish_across(port, ctx));
      for (std::size_t i = 1; i < mine().size(); ++i) {
        talk_.send(place(result_out, mine()[i]), mine()[i], part{1}, result_message().first(result_bytes_));
      }
    } else {
      CAUSEWAY_TRY(talk_.finish(place(up_out, hub()), hub(), deadline));
      CAUSEWAY_ASSIGN(result_bytes_, talk_.wait(place(result_in, hub()), hub(), deadline));
    }
    const peer_message m = detail::read_message(hub(), result_message().first(result_bytes_), row.values.size(), peers_);
    const std::optional<refusal> bad = detail::adopt_message(down_, ctx, m, row.values);
    for (const net::peer_index p : mine()) CAUSEWAY_TRY(talk_.finish(place(result_out, p), p, deadline));
    talk_.close();
    if (bad) return to_error(*bad, peers_);
    return {};
  }

  void cancel() {
    across_.cancel();
    talk_.close();
  }

  /// What `Across` keeps from round to round.
  void serialize(auto& ar) {
    if constexpr (requires { across_.serialize(ar); }) across_.serialize(ar);
  }

 private:
  enum kind : std::size_t { up_out, up_in, result_in, result_out, kinds };

  // --- regions ------------------------------------------------------------------------------------------------------

  result<void> find_region() {
    CAUSEWAY_ASSIGN(region_, detail::region_of(self_, regions_, peers_));
    return {};
  }
  [[nodiscard]] const std::vector<net::peer_index>& mine() const { return regions_[region_]; }
  [[nodiscard]] net::peer_index hub() const { return mine().front(); }
  [[nodiscard]] bool is_hub() const { return hub() == self_; }

  // --- places of operations, slots of bytes: the result, then messages of the region, the own one first -------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> result_message() { return {memory_.data(), down_slot_}; }
  [[nodiscard]] std::span<std::byte> from_member(std::size_t i) {
    return {memory_.data() + down_slot_ + i * up_slot_, up_slot_};
  }

  void lay_out(std::size_t count, const auto& ctx) {
    up_slot_ = detail::message_slot(up_.most_bytes(ctx, count));
    down_slot_ = detail::message_slot(down_.most_bytes(ctx, count));
    const std::size_t bytes = down_slot_ + (is_hub() ? mine().size() : 1) * up_slot_;
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    if (is_hub() && region_row_.size() != count) region_row_ = aligned_buffer<float>{count};
  }

  // --- what a hub does ----------------------------------------------------------------------------------------------

  /// region_row_ and weight_ = the mean of the region and how much it counts; or bad_, what is wrong with it.
  void reduce(const auto& ctx) {
    const std::span<float> sum = region_row_.span();
    kernels::zero(ctx.pool, sum.data(), static_cast<std::int64_t>(sum.size()));
    bad_.reset();
    for (const peer_message& m : messages_) {
      if (m.bad) note(bad_, {m.peer, m.bad->code});
    }
    double total = 0;
    for (const peer_message& m : messages_) {
      if (bad_ || m.weight == 0) continue;
      total += m.weight;
      const auto added = up_.decode_add(ctx, m.bytes, sum, m.weight, {});
      if (!added) note(bad_, {m.peer, added.error().code});
    }
    weight_ = static_cast<float>(total);
    if (bad_ || total == 0) return;
    const float factor = detail::mean_factor(total);
    if (factor == 0 || !detail::scale_finite(ctx.pool, sum, factor)) bad_ = refusal{peers_, errc::non_finite};
    if (!bad_) detail::invert(up_, ctx, sum);
  }

  [[nodiscard]] exchange_row row_of_region() {
    return {.values = region_row_.span(), .weight = bad_ ? 0.0F : weight_, .refused = bad_ ? bad_->code : errc{}};
  }

  /// An error among hubs ends the conversation with the region too.
  result<void> closing(result<void> outcome) {
    if (!outcome) talk_.close();
    return outcome;
  }

  /// Writes the message for the region: the mean of all, or why there is none.
  template <class X>
  result<void> finish_across(const exchange_port& port, const X& ctx) {
    const auto outcome = across_.finish(port.beside(hubs_.get()), row_of_region(), ctx);
    std::optional<refusal> bad = bad_;
    if (!outcome && !bad) bad = refused_by_hubs(outcome.error());
    if (!outcome && !bad) return closing(outcome);
    X same_everywhere{ctx};
    same_everywhere.own_seed = ctx.seed;  // or hubs would round the same values differently
    detail::write_header(result_message(), bad ? 0.0F : 1.0F, region_row_.size(), bad.value_or(detail::no_refusal));
    result_bytes_ = message_header_bytes;
    if (!bad) {
      const std::span<std::byte> body = result_message().subspan(message_header_bytes);
      result_bytes_ += down_.encode(same_everywhere, region_row_.span(), body);
    }
    return {};
  }

  /// What all hubs were told alike; nothing where the network failed. Hubs know each other by rank.
  [[nodiscard]] std::optional<refusal> refused_by_hubs(const error& e) const {
    if (e.code == errc::invalid_argument || e.code == errc::unsupported) return refusal{peers_, e.code};
    if (e.code != errc::non_finite && e.code != errc::corrupt && e.code != errc::protocol) return std::nullopt;
    constexpr std::string_view prefix = "peer ";
    std::size_t rank = regions_.size();
    if (e.where.starts_with(prefix)) {
      (void)std::from_chars(e.where.data() + prefix.size(), e.where.data() + e.where.size(), rank);
    }
    return refusal{rank < regions_.size() ? regions_[rank].front() : peers_, e.code};
  }

  region_list regions_;
  region_label label_;
  bool asks_ = false;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t region_ = 0;
  std::size_t up_slot_ = 0;
  std::size_t down_slot_ = 0;
  std::size_t own_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  float weight_ = 0;
  std::optional<refusal> bad_;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> region_row_;
  std::vector<peer_message> messages_;
  detail::held_transport hubs_;
  Across across_;      // after what it uses
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/two_level_mean.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP
