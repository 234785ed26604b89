// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_GATHER_HPP
#define CAUSEWAY_COLLECTIVE_GATHER_HPP

// Everybody's bytes to one peer, or to all. Lengths may differ: each peer says its length first, and nobody reserves more
// than the caller's limit because somebody else says so. And whether all peers hold the same thing.

#include <causeway/collective/flight.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// The places of one gather's operations: for every peer a length and bytes, out and in.
struct gather_places {
  std::size_t peers;
  [[nodiscard]] std::size_t length_out(net::peer_index p) const { return p; }
  [[nodiscard]] std::size_t bytes_out(net::peer_index p) const { return peers + p; }
  [[nodiscard]] std::size_t length_in(net::peer_index p) const { return 2 * peers + p; }
  [[nodiscard]] std::size_t bytes_in(net::peer_index p) const { return 3 * peers + p; }
};

CAUSEWAY_DECL error too_long(net::peer_index peer, std::size_t offered, std::size_t limit);

/// Receives from all others: `lengths` are under way already.
template <net::Transport T>
result<void> collect(flight<T>& ops, const gather_places& at, std::span<const std::size_t> lengths, std::size_t limit,
                     std::vector<std::vector<std::byte>>& all) {
  for (net::peer_index p = 0; p < lengths.size(); ++p) {
    if (p == ops.self()) continue;
    CAUSEWAY_TRY(ops.wait_exact(at.length_in(p), p, sizeof(std::uint64_t)));
    if (lengths[p] > limit) return too_long(p, lengths[p], limit);
    all[p].resize(lengths[p]);
    ops.receive(at.bytes_in(p), p, part{1}, all[p]);
  }
  for (net::peer_index p = 0; p < lengths.size(); ++p) {
    if (p != ops.self()) CAUSEWAY_TRY(ops.wait_exact(at.bytes_in(p), p, all[p].size()));
  }
  return {};
}

/// Sends `mine` to the peers that `wants` names, and receives from all others if `wants` names this one.
template <net::Transport T, class Wants>
result<void> gather_to(T& transport, const net::message_id& id, std::span<const std::byte> mine, std::size_t limit,
                       std::vector<std::vector<std::byte>>& all, const Wants& wants, const collective_options& options) {
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));  // lengths travel as the workspace holds them
  const net::peer_index self = transport.self();
  if (mine.size() > limit) return too_long(self, mine.size(), limit);
  const gather_places at{transport.size()};
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  auto& lengths = workspace.sizes();
  lengths.assign(at.peers, mine.size());
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 4 * at.peers};
  for (net::peer_index p = 0; p < at.peers && wants(self); ++p) {
    if (p != self) ops.receive(at.length_in(p), p, part{0}, std::as_writable_bytes(std::span{&lengths[p], 1}));
  }
  for (net::peer_index p = 0; p < at.peers; ++p) {
    if (p == self || !wants(p)) continue;
    ops.send(at.length_out(p), p, part{0}, std::as_bytes(std::span{&lengths[self], 1}));
    ops.send(at.bytes_out(p), p, part{1}, mine);
  }
  if (wants(self)) {
    all.resize(at.peers);
    all[self].assign(mine.begin(), mine.end());
    CAUSEWAY_TRY(collect(ops, at, lengths, limit, all));
  }
  for (net::peer_index p = 0; p < at.peers; ++p) {
    CAUSEWAY_TRY(ops.finish(at.length_out(p), p));
    CAUSEWAY_TRY(ops.finish(at.bytes_out(p), p));
  }
  return {};
}

}  // namespace detail

/// all[p] = the bytes of peer p, on `root`; left alone elsewhere. At most `limit` bytes each (errc::too_large, naming the
/// peer that offers more). 1 latency; every peer but the root sends its bytes and 8 more.
result<void> gather(net::Transport auto& transport, const net::message_id& id, net::peer_index root,
                    std::span<const std::byte> mine, std::size_t limit, std::vector<std::vector<std::byte>>& all,
                    const collective_options& options = {}) {
  CAUSEWAY_EXPECT(root < transport.size());
  const auto wants = [root](net::peer_index p) { return p == root; };
  return detail::gather_to(transport, id, mine, limit, all, wants, options);
}

/// As gather, on every peer: 1 latency; every peer sends n-1 times its bytes and 8 more.
result<void> all_gather(net::Transport auto& transport, const net::message_id& id, std::span<const std::byte> mine,
                        std::size_t limit, std::vector<std::vector<std::byte>>& all,
                        const collective_options& options = {}) {
  const auto wants = [](net::peer_index) { return true; };
  return detail::gather_to(transport, id, mine, limit, all, wants, options);
}

/// For parts of equal length: `all` has n parts of mine.size() bytes; part p becomes the bytes of peer p. 1 latency; every
/// peer sends n-1 times its bytes. `mine` may be the peer's own part of `all`.
template <net::Transport T>
result<void> all_gather(T& transport, const net::message_id& id, std::span<const std::byte> mine, std::span<std::byte> all,
                        const collective_options& options = {}) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  const std::size_t size = mine.size();
  CAUSEWAY_EXPECT(all.size() == size * peers);
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 2 * std::size_t{peers}};
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index from = (self + peers - i) % peers;
    ops.receive(peers + from, from, part{}, all.subspan(from * size, size));
  }
  for (std::uint32_t i = 1; i < peers; ++i) ops.send((self + i) % peers, (self + i) % peers, part{}, mine);
  if (size > 0) std::memmove(all.data() + self * size, mine.data(), size);
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != self) CAUSEWAY_TRY(ops.wait_exact(peers + p, p, size));
  }
  for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(ops.finish(p, p));
  return {};
}

/// errc::diverged, with `complaint`, names the first peer whose number is another one. 8 bytes from and to everybody.
result<void> all_equal(net::Transport auto& transport, const net::message_id& id, std::uint64_t own,
                       const std::string& complaint, const collective_options& options = {}) {
  if (transport.size() == 1) return {};
  std::vector<std::uint64_t> all(transport.size());
  CAUSEWAY_TRY(
      all_gather(transport, id, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}), options));
  for (net::peer_index peer = 0; peer < transport.size(); ++peer) {
    if (all[peer] != own) return fail(errc::diverged, "peer " + std::to_string(peer), complaint);
  }
  return {};
}

#ifdef CAUSEWAY_COMPILED
extern template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                        std::size_t, std::vector<std::vector<std::byte>>&, const collective_options&);
extern template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                        std::span<std::byte>, const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/gather.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_GATHER_HPP
