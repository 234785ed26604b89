// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_EXCHANGE_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_EXCHANGE_IPP

#include <causeway/parallel/elastic/cohort_exchange.hpp>

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint64_t name_of_memory(const exchange_state& kept, std::size_t segment) {
  hasher h;
  for (const auto part : kept.memory(segment)) h.add(part);
  return h.finish();
}

CAUSEWAY_DECL exchange_entry of_step_before(exchange_entry entry, const std::vector<exchange_share>& all) {
  double sum = 0;
  for (const net::peer_index holder : entry.holders) sum += all[holder].row;
  for (std::size_t i = 0; i < entry.shares.size(); ++i) entry.shares[i] = sum > 0 ? all[entry.holders[i]].row / sum : 0;
  return entry;
}

CAUSEWAY_DECL bool have_all_rows(const std::vector<block_segment>& segments,
                                 const std::map<std::uint64_t, net::peer_index>& index_of,
                                 const std::vector<exchange_share>& all) {
  const auto has_row = [&](std::uint64_t id) { return all[index_of.at(id)].row > 0; };
  return std::all_of(segments.begin(), segments.end(), [&](const block_segment& s) {
    return std::any_of(s.computers.peers.begin(), s.computers.peers.end(), has_row);
  });
}

CAUSEWAY_DECL result<void> take_alike(net::any_transport& transport, const net::message_id& id, const exchange_state& state,
                                      bool has, const collective::collective_options& options) {
  std::vector<std::byte> own;
  for (const auto part : state.alike) own.insert(own.end(), part.begin(), part.end());
  own.push_back(std::byte{has});
  std::vector<std::byte> all(own.size() * transport.size());
  if (transport.size() > 1) CAUSEWAY_TRY(collective::all_gather(transport, id, own, std::span{all}, options));
  if (has) return {};
  for (std::size_t of = 0; of < all.size(); of += own.size()) {
    if (all[of + own.size() - 1] != std::byte{1}) continue;
    auto from = all.begin() + static_cast<std::ptrdiff_t>(of);
    for (const auto part : state.alike) {
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    }
    return {};
  }
  return fail(errc::not_found, "round",
              "nobody who is there has taken part in the last one; start a peer that has, where it ran");
}

CAUSEWAY_DECL std::vector<float> as_numbers(const exchange_state& state) {
  std::vector<std::byte> bytes;
  for (const auto part : state.alike) bytes.insert(bytes.end(), part.begin(), part.end());
  std::vector<float> numbers((bytes.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

CAUSEWAY_DECL void put_numbers(const exchange_state& state, std::span<const float> numbers) {
  auto from = std::as_bytes(numbers).begin();
  for (const auto part : state.alike) {
    std::copy_n(from, part.size(), part.begin());
    from += static_cast<std::ptrdiff_t>(part.size());
  }
}

CAUSEWAY_DECL replica_evaluations evaluations_in(const stage::replica& r, const cluster_inventory& inventory,
                                                 std::span<const cohort_member> members, const cohort_member& own) {
  replica_evaluations known{.steps = own.steps};
  const auto& peers = inventory.snapshot.peers;
  for (std::size_t p = 0; p < peers.size(); ++p) {
    const auto is_there = [&](const stage::assignment& s) { return s.peer == peers[p].id; };
    const cohort_member& m = members[p];
    if (std::none_of(r.assignments.begin(), r.assignments.end(), is_there)) continue;
    const bool has_gone_on = own.cohort != 0 && m.cohort == own.cohort && m.steps > own.steps;
    if (has_gone_on) known.through_with = std::numeric_limits<std::uint64_t>::max();
    if (m.steps != own.steps || m.evaluated <= known.through_with) continue;
    known.through_with = m.evaluated;
    if (own.cohort != 0 && m.cohort == own.cohort && m.evaluated == own.evaluated + 1) known.missed = m.evaluation;
  }
  return known;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_EXCHANGE_IPP
