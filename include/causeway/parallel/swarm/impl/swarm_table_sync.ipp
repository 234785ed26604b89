// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_SYNC_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_SYNC_IPP

#include <causeway/parallel/swarm/swarm_table_sync.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void swarm_table_sync::begin(std::uint64_t step) {
  fetched_.keep_only(step);
  if (my_.part != swarm_wire::training_turn(step)) my_.part = 0;
  asks_whoever_is_first_ = false;
}

CAUSEWAY_DECL void swarm_table_sync::gives_table(std::uint64_t steps, std::span<const float> parameters) {
  my_.committed = steps;
  if (!is_last_of_tied()) return;
  const auto table = table_of(parameters);
  given_.assign(table.begin(), table.end());
}

CAUSEWAY_DECL bool swarm_table_sync::holds_committed(bool adopted) {
  if (tied_.length == 0) return false;
  gives_table(tied_.step() + (adopted ? 0 : 1), tied_.parameters());
  messenger_.announce();
  return true;
}

CAUSEWAY_DECL bool swarm_table_sync::may_sum() const {
  if (!is_last_of_tied() || !my_.in_training() || my_.has_sum() || other_end_is_here()) return true;
  return my_.directory.has_sum(my_.options.stage, my_.step()) ||
         any_mate([&](const auto& s) { return s.part == my_.micro_batches.turn() || s.committed > my_.step(); });
}

CAUSEWAY_DECL void swarm_table_sync::leave_table_out(std::span<float> gradients) const {
  if (!is_first_of_tied()) return;
  const auto table = table_of(gradients);
  std::fill(table.begin(), table.end(), 0.0F);
}

CAUSEWAY_DECL void swarm_table_sync::put_table_into_parameters() {
  if (!is_first_of_tied()) return;
  CAUSEWAY_EXPECT(other_end_is_here());
  const auto values = fetched_.values();
  std::copy(values.begin(), values.end(), table_of(tied_.parameters()).begin());
}

CAUSEWAY_DECL void swarm_table_sync::ask_the_other_end() {
  if (!lacks_something()) return;
  fetched_.want(my_.step(), tied_.length);
  if (fetched_.looks_for_a_source()) {
    const net::peer_id from = whom_to_ask();
    if (from != 0) fetched_.ask(from);
  }
  for (const auto& r : fetched_.take_requests()) messenger_.post(fetched_.source(), r);
}

CAUSEWAY_DECL void swarm_table_sync::asks_itself() {
  asks_whoever_is_first_ = true;
  ask_the_other_end();
}

CAUSEWAY_DECL void swarm_table_sync::heard(net::peer_id from, const swarm_wire::table_request& r) {
  std::span<const float> table;
  if (is_first_of_tied() && my_.gradients.has_sum(r.step)) table = table_of(my_.gradients.sum());
  if (is_last_of_tied() && my_.committed == r.step + 1) table = given_;
  messenger_.post(from, answer(r, table, is_first_of_tied() ? my_.gradients.version() : my_.committed), true);
}

CAUSEWAY_DECL void swarm_table_sync::heard(net::peer_id from, const swarm_wire::table_piece& p) {
  if (!fetched_.take(from, p) || !is_last_of_tied()) return;
  my_.part = swarm_wire::training_turn(p.step);
  messenger_.announce();
}

CAUSEWAY_DECL std::string swarm_table_sync::describe() const {
  if (!lacks_something() || other_end_is_here()) return {};
  const std::string what = is_last_of_tied() ? "stage 0's part of the table's gradient" : "the last stage's table";
  if (fetched_.source() != 0) return "; " + what + " is on its way from peer " + std::to_string(fetched_.source());
  return "; waiting for " + what;
}

CAUSEWAY_DECL bool swarm_table_sync::first_of_its_stage() const {
  const auto& peers = my_.directory.peers();
  return std::none_of(peers.begin(), peers.end(), [&](const auto& p) {
    const auto& said = p.second.said;
    return p.first < my_.fabric->id() && my_.directory.serves(p.first) && said->stage == my_.options.stage &&
           said->turn == my_.micro_batches.turn();
  });
}

CAUSEWAY_DECL bool swarm_table_sync::lacks_something() const {
  if (!my_.in_training() || other_end_is_here()) return false;
  if (is_first_of_tied()) return my_.has_sum();
  if (!is_last_of_tied() || my_.has_sum()) return false;
  return asks_whoever_is_first_ || (first_of_its_stage() && !may_sum());
}

CAUSEWAY_DECL net::peer_id swarm_table_sync::whom_to_ask() const {
  std::vector<net::peer_id> all;
  for (const auto& [id, p] : my_.directory.peers()) {
    if (p.up && p.said && !fetched_.refused(id) && has_it(*p.said)) all.push_back(id);
  }
  return all.empty() ? 0 : all[my_.fabric->id() % all.size()];
}

CAUSEWAY_DECL bool swarm_table_sync::has_it(const swarm_wire::status& s) const {
  if (is_first_of_tied()) return s.stage + 1 == my_.options.stages && s.committed == my_.step() + 1;
  return s.stage == 0 && std::any_of(std::begin(s.sums), std::end(s.sums),
                                     [&](const auto& sum) { return sum.step == my_.step() && sum.squares >= 0; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_SYNC_IPP
