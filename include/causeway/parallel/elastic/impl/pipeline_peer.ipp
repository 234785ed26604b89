// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_PIPELINE_PEER_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_PIPELINE_PEER_IPP

#include <causeway/parallel/elastic/pipeline_peer.hpp>

#include <causeway/collective/group_view.hpp>
#include <causeway/parallel/micro_batches.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> pipeline_peer::check(std::string_view who, std::int64_t micro_batches,
                                                std::uint32_t chunks) const {
  if (group == nullptr) {
    return fail(errc::invalid_argument, std::string{who},
                "it needs a membership: let environment::group be a member of all peers (train/member.hpp)");
  }
  CAUSEWAY_TRY(check_micro_batches(who, micro_batches));
  if (chunks == 1) return {};
  return fail(errc::unsupported, std::string{who}, "a rank has one chunk here; use another schedule");
}

CAUSEWAY_DECL result<void> pipeline_peer::check_ends(std::string_view who, bool joined, bool wanted) {
  if (joined == wanted) return {};
  return fail(errc::invalid_argument, std::string{who},
              wanted ? "its recovery policy needs embedding and output layer in one block: set joined_ends in the model's "
                       "options"
                     : "joined_ends is for stage::recovery::swapped_neighbours: use that, or build the model without");
}

CAUSEWAY_DECL void pipeline_peer::begin(const nn::model_part& part, std::int64_t layers,
                                        const std::optional<io::any_storage>& storage, const std::string& folder) {
  if (storage) saved.savers.begin(block_store{*storage, folder});
  held.begin(part, layers, saved.savers.store());
}

CAUSEWAY_DECL result<bool> pipeline_peer::begin_attempt() {
  const std::uint32_t before = attempt.attempt;
  const std::uint64_t round = attempt.round;
  auto begun = group->begin_attempt();
  const std::uint64_t waited_at = begun ? 0 : record().state;
  alone = !begun && begun.error().code == errc::cancelled && in_vain == waited_at;
  in_vain = waited_at;
  if (!begun) return begun.error();
  attempt = *begun;
  sums = 0;
  return attempt.attempt != before || attempt.round != round;
}

CAUSEWAY_DECL net::message_id pipeline_peer::named(channel kind, std::uint64_t number) const {
  return {.channel = collective::channels::state + kind, .step = mix(attempt.round, number), .parent = attempt.parent};
}

CAUSEWAY_DECL peer_inventory pipeline_peer::described(std::int64_t layers, const log_sink& log) {
  peer_inventory own{held.described(record(), layers), {}};
  own.peer.id = identity();
  own.peer.leaves = leaves;
  own.storage = saved.savers.identity(mix(identity(), attempt.parent), log);
  return own;
}

CAUSEWAY_DECL result<cluster_inventory> pipeline_peer::gather(const net::message_id& id, const peer_inventory& own,
                                                              const pipeline_agreement& ours,
                                                              const collective::collective_options& options) {
  CAUSEWAY_ASSIGN(cluster_inventory inventory, gather_inventory(*attempt.transport, id, own, ours, options));
  index_of.clear();
  for (std::size_t p = 0; p < inventory.index_of.size(); ++p)
    index_of[inventory.snapshot.peers[p].id] = inventory.index_of[p];
  saved.savers.met(inventory);
  staying = stage::who_stays(inventory.snapshot).peers.size();
  inventory.snapshot.step = record().step;
  inventory.snapshot.state = record().state;
  inventory.snapshot.history = record().history;
  return inventory;
}

CAUSEWAY_DECL error pipeline_peer::wait_for_more(const log_sink& log, const std::string& what, const error& why) {
  if (leaves || (why.code != errc::out_of_memory && why.code != errc::not_found)) return why;
  if (why.message != said) log(severity::waiting, what + " waits: " + why.text());
  said = why.message;
  return fail(errc::cancelled, what, "too few peers are there");
}

CAUSEWAY_DECL result<void> pipeline_peer::vote_for_saved(std::span<const saved_states> everywhere, std::int64_t layers,
                                                         std::uint64_t step, const log_sink& log, const std::string& what,
                                                         const error& why) {
  const auto newest = newest_together(everywhere, saved_rounds::units(layers, group->state()));
  if (!newest) return wait_for_more(log, what, why);
  const bool back = step != newest->step;
  const std::string from = back ? "back from step " + std::to_string(step) + " to step " : "on from step ";
  log(back ? severity::warning : severity::info,
      why.where + ": no peer has them any more; going " + from + std::to_string(newest->step) + ", which is saved");
  return group->propose(*newest);
}

CAUSEWAY_DECL bool pipeline_peer::take_assignment(std::int64_t layers, const nn::model_part& part) {
  said.clear();
  assignment = layout.find(identity(), &place);
  if (assignment == nullptr) return true;
  const nn::model_part wanted{assignment->held()};
  return wanted.ranges(layers) == part.ranges(layers) && held.is_ready(wanted, record());
}

CAUSEWAY_DECL std::optional<std::uint32_t> pipeline_peer::path() const {
  const std::uint32_t paths = group->state().paths;
  if (paths == 0 || assignment == nullptr) return {};
  return path_of_slot(place.replica, layout.replicas.size(), paths);
}

CAUSEWAY_DECL bool pipeline_peer::follow_path() const { return group->state().paths > 0 && group->state().follow(path()); }

CAUSEWAY_DECL std::vector<std::uint64_t> pipeline_peer::dropout_of(std::uint64_t step, std::uint32_t first,
                                                                   std::uint32_t count) {
  constexpr std::uint64_t stream = 0x656C7069;
  std::vector<std::uint64_t> all;
  for (std::uint32_t m = 0; m < count; ++m) all.push_back(mix(step, first + m, stream));
  return all;
}

CAUSEWAY_DECL boundary_options pipeline_peer::boundaries(std::uint64_t seed, std::uint64_t step) const {
  return {.channel = collective::channels::activations,
          .step = step,
          .seed = seed,
          .deadline = attempt.deadline,
          .base = &base};
}

CAUSEWAY_DECL exchange_entry pipeline_peer::entry(bool last) const {
  if (assignment == nullptr) return entry({{identity()}, {1.0}}, last);
  if (!by_block) return entry(computers_of(layout, assignment->computes.first), last);
  exchange_entry all = entry(all_holders(layout), last);
  all.blocks = holders_of_blocks(layout, shares_table);
  all.replicas = replicas_of_holders(layout);
  return all;
}

CAUSEWAY_DECL exchange_entry pipeline_peer::entry(row_shares with, bool last) const {
  exchange_entry entry{.attempt = attempt, .last = last};
  const auto& slots = layout.replicas;
  for (std::size_t s = 0; s < slots.size() && group->state().paths > 0; ++s) {
    if (!slots[s].assignments.empty()) entry.paths.push_back(path_of_slot(s, slots.size(), group->state().paths));
  }
  for (const std::uint64_t id : with.peers) entry.holders.push_back(index_of.at(id));
  entry.shares = std::move(with.shares);
  entry.names = std::move(with.peers);
  return entry;
}

CAUSEWAY_DECL std::uint64_t pipeline_peer::new_cohort(std::size_t slot) const {
  return mix(record().state, mix(attempt.round, attempt.attempt), slot + 1);
}

CAUSEWAY_DECL void pipeline_peer::begin_arrivals() {
  arrivals.begin(*attempt.transport, named(here_channel));
  if (!group->state().round_seconds) return;
  std::vector<net::peer_index> others;  // who computes the first block of the other replicas
  for (std::size_t r = 0; r < layout.replicas.size() && computes_first(); ++r) {
    const stage::replica& other = layout.replicas[r];
    if (r != place.replica && !other.assignments.empty()) others.push_back(index_of.at(computer_of(other, 0)));
  }
  counted.begin(*attempt.transport, named(counts_channel), others);
}

CAUSEWAY_DECL result<void> pipeline_peer::meet_holders(const std::vector<std::uint64_t>& going_on) {
  if (!group->state().meet_holders) return {};
  exchange_entry with = entry();
  net::any_transport holders{collective::group_view{*attempt.transport, with.holders}};
  block_holders who{.transport = holders, .id = named(progress_channel, 1), .deadline = attempt.deadline};
  if (assignment != nullptr) {
    who.peers = std::move(with.holders);
    for (std::size_t s = 0; s < going_on.size(); ++s) {
      if (layout.replicas[s].assignments.empty()) continue;
      who.replicas.push_back(going_on[s] != 0 ? going_on[s] : new_cohort(s));
    }
  }
  return group->state().meet_holders(who);
}

CAUSEWAY_DECL result<void> pipeline_peer::sum(std::span<double> values, collective::collective_options options) {
  net::any_transport& peers = *attempt.transport;
  options.deadline = attempt.deadline;
  std::vector<double> all(peers.size() * values.size());
  const auto own = std::span{all}.subspan(peers.self() * values.size(), values.size());
  const bool counts = assignment != nullptr && computers_of(layout, assignment->computes.first).peers.front() == identity();
  if (counts) std::copy(values.begin(), values.end(), own.begin());
  if (peers.size() > 1) {
    CAUSEWAY_TRY(collective::all_gather(peers, named(sums_channel, sums++), std::as_bytes(own),
                                        std::as_writable_bytes(std::span{all}), options));
  }
  std::fill(values.begin(), values.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
  return {};
}

CAUSEWAY_DECL step_record pipeline_peer::next_round(std::uint64_t step, std::uint64_t interval) const {
  step_record next = record();
  hasher h;
  for (const auto& [id, index] : index_of) h.add_value(id).add_value(index);
  h.add_value(next.state).add_value(attempt.round).add_value(attempt.attempt);
  next.step = next.updates = step;
  next.state = h.finish();
  next.history.took_step(step, interval, layout, staying);
  return next;
}

CAUSEWAY_DECL error missing(const nn::block_range& blocks) {
  return fail(errc::not_found, "blocks " + nn::model_part::text(blocks),
              "no peer that is there has them; the run goes on when one that has them is back");
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_PIPELINE_PEER_IPP
