// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP
#define CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP

// Sums and means over all peers. Whatever the algorithm, every peer ends with the same bits, and those depend on the order
// of the peers and on nothing else: not on arrival times, thread counts or instruction sets. A transport that adds up by
// means of its own has an order of its own, too. After an error the values are unspecified: keep a copy where the step can
// be repeated.

#include <causeway/collective/butterfly.hpp>
#include <causeway/collective/encoding.hpp>
#include <causeway/collective/flight.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/collective/ring.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Everybody sends everything to everybody, and adds for itself.
template <net::Transport T>
result<void> one_shot(T& transport, const net::message_id& id, std::span<float> data, float factor,
                      const collective_options& options, collective_workspace& workspace) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  const std::size_t slot = (data.size_bytes() + 63) / 64 * 64;
  std::byte* const memory = workspace.reserve(slot * peers);
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 2 * std::size_t{peers}};
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index from = (self + peers - i) % peers;
    ops.receive(from, from, part{}, {memory + from * slot, data.size_bytes()});
  }
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index to = (self + i) % peers;
    ops.send(peers + to, to, part{}, std::as_bytes(data));
  }
  std::optional<refusal> bad;
  auto& parts = workspace.parts();
  parts.assign(peers, data.data());
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != self) {
      CAUSEWAY_ASSIGN(const std::size_t moved, ops.wait(p, p));
      if (moved != data.size_bytes()) note(bad, {p, errc::protocol});
      parts[p] = reinterpret_cast<const float*>(memory + p * slot);
    }
    if (!finite_values({parts[p], data.size()})) note(bad, {p, errc::non_finite});
  }
  for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(ops.finish(peers + p, p));  // then `data` may change
  if (bad) return to_error(*bad, peers);
  thread_pool& pool = options.pool != nullptr ? *options.pool : workspace.alone();
  if (sum_parts(pool, parts, factor, data.data(), static_cast<std::int64_t>(data.size()))) return {};
  return to_error({peers, errc::non_finite}, peers);
}

/// By means of the transport's own. All see whether the sum is finite, and nobody whose value was not.
result<void> own_sum(net::SumsItself auto& transport, std::span<float> data, float factor,
                     const collective_options& options, collective_workspace& workspace) {
  if (auto summed = transport.wait(transport.sum(data), options.deadline); !summed) return summed.error();
  if (!finite_values(data)) return to_error({transport.size(), errc::non_finite}, transport.size());
  thread_pool& pool = options.pool != nullptr ? *options.pool : workspace.alone();
  if (factor != 1.0F) kernels::scale(pool, data.data(), factor, static_cast<std::int64_t>(data.size()));
  return {};
}

template <net::Transport T>
result<void> all_reduce(T& transport, const net::message_id& id, std::span<float> data, float factor,
                        const collective_options& options) {
  if (data.empty()) return {};
  if (transport.size() == 1) {
    if (finite_values(data)) return {};
    return to_error({0, errc::non_finite}, 1);
  }
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  algorithm how = options.how;
  if constexpr (net::SumsItself<T>) {
    if (how == algorithm::automatic && transport.sums()) return own_sum(transport, data, factor, options, workspace);
  }
  if (how == algorithm::automatic) {
    const bool little = data.size_bytes() <= options.one_shot_bytes;
    const bool few = data.size_bytes() * transport.size() <= 16 * options.one_shot_bytes;
    how = little && few ? algorithm::one_shot : algorithm::butterfly;
  }
  if (how == algorithm::one_shot) return one_shot(transport, id, data, factor, options, workspace);
  if (how == algorithm::ring) return ring<T>{transport, id, data, factor, options, workspace}.run();
  return butterfly<T, raw_encoding>{transport, id, data, raw_encoding{}, factor, options, workspace}.run();
}

}  // namespace detail

/// data[i] = sum over all peers of their data[i], in f32, in place. Every peer calls it with the same `id`, as many values
/// and the same options. Payload bytes sent by a peer: 2 (n-1)/n of the size (one_shot: n-1 times the size); latencies: see
/// `algorithm`. Allocates nothing when given a workspace that has seen the size before.
///
/// errc::timeout, errc::peer_lost and errc::wrong_parent name the peer that was waited for. errc::non_finite names a peer
/// whose values hold NaN or infinity, and is given by all peers alike (in a ring the culprit alone is told its name).
result<void> all_reduce_sum(net::Transport auto& transport, const net::message_id& id, std::span<float> data,
                            const collective_options& options = {}) {
  return detail::all_reduce(transport, id, data, 1.0F, options);
}

/// As all_reduce_sum, then times 1/n (as f32), before the sums are sent round.
result<void> all_reduce_mean(net::Transport auto& transport, const net::message_id& id, std::span<float> data,
                             const collective_options& options = {}) {
  return detail::all_reduce(transport, id, data, 1.0F / static_cast<float>(transport.size()), options);
}

/// The mean of what all peers' values decode to, in place, with encoded bytes on the wire: 2 (n-1)/n · size · ratio of them
/// a peer. Nothing is encoded twice on its way: a contribution once, by the peer that makes it; each part's mean once, by
/// the peer that owns it. Everybody, the owner too, ends with the decoded mean: the same bits everywhere.
///
/// For a codec C that loses something, what this peer contributed is decode(encode(data)), encoded from the start of `data`
/// in blocks of codec.block(): a caller that feeds the loss back computes it from that. Errors: as all_reduce_sum; also
/// errc::corrupt, with the peer whose bytes do not decode, given by all peers alike.
template <net::Transport T, Encoding C>
result<void> exchange_mean(T& transport, const net::message_id& id, const C& codec, std::span<float> data,
                           const collective_options& options = {}) {
  if constexpr (C::raw) {
    return all_reduce_mean(transport, id, data, options);
  } else {
    if (data.empty()) return {};
    collective_workspace own;
    collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
    const float factor = 1.0F / static_cast<float>(transport.size());
    return butterfly<T, C>{transport, id, data, codec, factor, options, workspace}.run();
  }
}

#ifdef CAUSEWAY_COMPILED
extern template result<void> detail::all_reduce(net::any_transport&, const net::message_id&, std::span<float>, float,
                                                const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/all_reduce.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP
