// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_PEER_INVENTORY_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_PEER_INVENTORY_IPP

#include <causeway/parallel/elastic/peer_inventory.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

inline constexpr std::uint32_t most_ranges = 64;  // that a peer may hold

CAUSEWAY_DECL void put_range(net::byte_writer& w, const nn::block_range& r) {
  w.put(static_cast<std::uint64_t>(r.first)).put(static_cast<std::uint64_t>(r.last));
}

/// Ranges of a model with `layers` blocks; empty ones only where `may_be_empty`.
CAUSEWAY_DECL nn::block_range get_range(net::byte_reader& r, std::int64_t layers, bool may_be_empty) {
  const auto first = r.get<std::uint64_t>(), last = r.get<std::uint64_t>();
  const auto most = static_cast<std::uint64_t>(layers);
  if (last > most || first > last || (first == last && !may_be_empty)) r.refuse();
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

CAUSEWAY_DECL void put_ranges(net::byte_writer& w, const std::vector<nn::block_range>& all) {
  CAUSEWAY_EXPECT(all.size() <= most_ranges);
  w.put(static_cast<std::uint32_t>(all.size()));
  for (const nn::block_range& r : all) put_range(w, r);
}

/// Rising and apart.
CAUSEWAY_DECL std::vector<nn::block_range> get_ranges(net::byte_reader& r, std::int64_t layers) {
  std::vector<nn::block_range> all;
  const auto ranges = r.get<std::uint32_t>();
  if (ranges > most_ranges) r.refuse();
  for (std::uint32_t i = 0; i < ranges && r.ok(); ++i) {
    all.push_back(get_range(r, layers, false));
    if (i > 0 && all[i].first <= all[i - 1].last) r.refuse();
  }
  return all;
}

CAUSEWAY_DECL void put_begun(net::byte_writer& w, const stage::begun_step& b) {
  w.put(b.name);
  if (b.name == 0) return;
  w.put(b.replicas).put(b.stages).put(b.stage);
  put_ranges(w, b.keeps);
}

CAUSEWAY_DECL stage::begun_step get_begun(net::byte_reader& r, std::uint32_t replica, std::int64_t layers) {
  stage::begun_step b;
  b.name = r.get<std::uint64_t>();
  if (!r.ok() || b.name == 0) return b;
  b.replicas = r.get<std::uint32_t>();
  b.stages = r.get<std::uint32_t>();
  b.stage = r.get<std::uint32_t>();
  b.keeps = get_ranges(r, layers);
  if (replica >= b.replicas || b.stage >= b.stages || b.stages > static_cast<std::uint64_t>(layers)) r.refuse();
  return b;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<std::byte> encode(const peer_inventory& m, std::uint64_t agreed) {
  const stage::present_peer& p = m.peer;
  net::byte_writer w;
  w.put(agreed).put(p.id).put(p.replica);
  detail::put_range(w, p.computes);
  detail::put_ranges(w, p.holds);
  w.put(static_cast<std::uint32_t>(p.squares.size()));
  for (const double s : p.squares) w.put(std::bit_cast<std::uint64_t>(s));
  detail::put_begun(w, p.begun);
  w.put(static_cast<std::uint8_t>(p.leaves));
  w.put(m.storage)
      .put(m.turn.evaluated)
      .put(static_cast<std::uint8_t>(m.turn.trains))
      .put(std::bit_cast<std::uint64_t>(m.turn.last));
  return std::move(w).take();
}

CAUSEWAY_DECL result<peer_inventory> decode_peer_inventory(std::span<const std::byte> bytes,
                                                           const pipeline_agreement& ours) {
  net::byte_reader r{bytes};
  const auto agreed = r.get<std::uint64_t>();
  if (r.ok() && agreed != ours.hash) {
    return fail(errc::wrong_model, "",
                "it has another model or seed, schedule, codec, recovery or number of micro-batches");
  }
  peer_inventory m;
  stage::present_peer& p = m.peer;
  p.id = r.get<std::uint64_t>();
  p.replica = r.get<std::uint32_t>();
  p.computes = detail::get_range(r, ours.layers, true);
  p.holds = detail::get_ranges(r, ours.layers);
  const auto squares = r.get<std::uint32_t>();
  if (squares > ours.layers) r.refuse();
  for (std::uint32_t i = 0; i < squares && r.ok(); ++i) {
    p.squares.push_back(std::bit_cast<double>(r.get<std::uint64_t>()));
    if (!(p.squares.back() >= 0) || !std::isfinite(p.squares.back())) r.refuse();
  }
  p.begun = detail::get_begun(r, p.replica, ours.layers);
  const auto leaves = r.get<std::uint8_t>();
  if (leaves > 1) r.refuse();
  p.leaves = leaves == 1;
  m.storage = r.get<std::uint64_t>();
  m.turn.evaluated = r.get<std::uint32_t>();
  const auto trains = r.get<std::uint8_t>();
  if (trains > 1) r.refuse();
  m.turn.trains = trains == 1;
  m.turn.last = std::bit_cast<double>(r.get<std::uint64_t>());
  CAUSEWAY_TRY(r.finish("what a peer holds"));
  return m;
}

CAUSEWAY_DECL result<cluster_inventory> gather_inventory(net::any_transport& transport, const net::message_id& id,
                                                         const peer_inventory& own, const pipeline_agreement& ours,
                                                         const collective::collective_options& options) {
  const std::size_t most = 128 + 32 * detail::most_ranges + 8 * static_cast<std::size_t>(ours.layers);
  std::vector<std::vector<std::byte>> all(transport.size());
  if (transport.size() > 1) CAUSEWAY_TRY(collective::all_gather(transport, id, encode(own, ours.hash), most, all, options));
  std::vector<std::pair<peer_inventory, net::peer_index>> peers;
  for (net::peer_index p = 0; p < transport.size(); ++p) {
    auto one = p == transport.self() ? result<peer_inventory>{own} : decode_peer_inventory(all[p], ours);
    if (!one) {
      if (one.error().where.empty()) one.error().where = "peer " + std::to_string(p);
      return one.error();
    }
    peers.emplace_back(std::move(*one), p);
  }
  std::sort(peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.first.peer.id < b.first.peer.id; });
  cluster_inventory inventory;
  inventory.snapshot.layers = ours.layers;
  inventory.snapshot.micro_batches = ours.micro_batches;
  for (auto& [member, index] : peers) {
    if (!inventory.snapshot.peers.empty() && inventory.snapshot.peers.back().id == member.peer.id) {
      return fail(errc::protocol, "peer " + std::to_string(index), "it says to be another one");
    }
    if (index == transport.self()) inventory.self = static_cast<net::peer_index>(inventory.index_of.size());
    inventory.snapshot.peers.push_back(std::move(member.peer));
    inventory.turns.push_back(member.turn);
    inventory.storages.push_back(member.storage);
    inventory.index_of.push_back(index);
  }
  return inventory;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_PEER_INVENTORY_IPP
