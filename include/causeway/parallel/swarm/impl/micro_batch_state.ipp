// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_MICRO_BATCH_STATE_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_MICRO_BATCH_STATE_IPP

#include <causeway/parallel/swarm/micro_batch_state.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL micro_batch_state::micro_batch_state(net::peer_id self, std::uint32_t stage, std::uint32_t stages)
    : self_{self}, stage_{stage}, stages_{stages} {}

CAUSEWAY_DECL std::vector<swarm_shipment> micro_batch_state::take_shipments() { return std::exchange(shipments_, {}); }

CAUSEWAY_DECL void micro_batch_state::begin(std::uint64_t turn, std::uint32_t micro_batches,
                                            swarm_wire::batch_set counted) {
  turn_ = turn;
  slots_.clear();
  shipments_.clear();
  counted_ = counted.size() == micro_batches ? std::move(counted) : swarm_wire::batch_set{micro_batches};
  done_ = counted_;
  next_place_ = 0;
}

CAUSEWAY_DECL void micro_batch_state::take(const swarm_wire::order& o) {
  if (o.turn != turn_ || o.micro_batch >= done_.size() || o.path.size() != stages_ || o.passes.size() != stages_) return;
  slot& s = at(o.micro_batch);
  if (s.ordered && o.version <= s.path.version) return;
  const net::peer_id above = s.ordered ? neighbour(s, true) : 0;
  const net::peer_id below = s.ordered ? neighbour(s, false) : 0;
  s.path = o;
  s.ordered = o.path[stage_] == self_;
  if (!s.ordered) return;
  if (o.passes[stage_] > s.pass) s.begin_anew(o.passes[stage_]);
  if (s.output && (needs_again(s, true) || neighbour(s, true) != above)) ship(o.micro_batch, s, false);
  if (s.d_input && (needs_again(s, false) || neighbour(s, false) != below)) ship(o.micro_batch, s, true);
}

CAUSEWAY_DECL void micro_batch_state::arrive(std::uint32_t micro_batch, bool backward, boundary_bytes bytes,
                                             std::uint64_t pass) {
  if (micro_batch >= done_.size()) return;
  slot& s = at(micro_batch);
  received& place = backward ? s.d_output : s.input;
  if (pass < s.pass || (place.bytes && place.pass >= pass)) return;
  // An input of a pass to come is kept also where this one is finished: the order that begins anew may be on its way.
  if (backward ? s.finished : pass == s.pass && (s.forwarded || s.finished)) return;
  place = {std::move(bytes), pass};
  s.place = next_place_++;
}

CAUSEWAY_DECL net::peer_id micro_batch_state::refuse(std::uint32_t micro_batch, bool backward) {
  slot& s = at(micro_batch);
  (backward ? s.d_output : s.input).bytes.reset();
  return neighbour(s, backward);
}

CAUSEWAY_DECL bool micro_batch_state::expects(net::peer_id peer, std::uint32_t micro_batch, bool backward) const {
  const auto known = slots_.find(micro_batch);
  return peer != 0 && known != slots_.end() && known->second.ordered && neighbour(known->second, backward) == peer;
}

CAUSEWAY_DECL void micro_batch_state::connected(net::peer_id peer) {
  for (auto& [m, s] : slots_) {
    if (!s.ordered) continue;
    if (s.output && neighbour(s, true) == peer) ship(m, s, false);
    if (s.d_input && neighbour(s, false) == peer) ship(m, s, true);
  }
}

CAUSEWAY_DECL void micro_batch_state::drop_orders() {
  for (auto& [m, s] : slots_) s.ordered = s.ordered && (s.forwarded || s.finished);
}

CAUSEWAY_DECL void micro_batch_state::drop_contributions() {
  std::erase_if(slots_, [](const auto& s) { return s.second.finished; });
  done_ = counted_;
}

CAUSEWAY_DECL void micro_batch_state::forget() {
  slots_.clear();
  done_ = counted_;
}

CAUSEWAY_DECL void micro_batch_state::set_applied(bool applied) {
  counted_ = applied ? done_ : swarm_wire::batch_set{done_.size()};
  if (!applied) done_ = counted_;
}

CAUSEWAY_DECL std::optional<swarm_task> micro_batch_state::next() const {
  const std::pair<const std::uint32_t, slot>* best = nullptr;
  for (const auto& entry : slots_) {
    const slot& s = entry.second;
    if (!s.ordered || s.finished || !(ready_back(s) || ready_forth(s))) continue;
    const bool better =
        best == nullptr || (ready_back(s) != ready_back(best->second) ? ready_back(s) : s.place < best->second.place);
    if (better) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  const slot& s = best->second;
  const bool backward = ready_back(s);
  return swarm_task{best->first, backward, backward ? s.d_output.bytes : s.input.bytes, s.pass};
}

CAUSEWAY_DECL void micro_batch_state::forwarded(std::uint32_t micro_batch, boundary_bytes output, std::uint64_t pass) {
  slot& s = at(micro_batch);
  if (s.pass != pass) return;
  s.forwarded = true;
  s.input.bytes.reset();
  s.output = std::move(output);
  s.place = next_place_++;
  if (s.output && s.ordered) ship(micro_batch, s, false);
}

CAUSEWAY_DECL void micro_batch_state::contributed(std::uint32_t micro_batch, double loss, boundary_bytes d_input,
                                                  std::uint64_t pass) {
  slot& s = at(micro_batch);
  done_.add(micro_batch);
  s.loss = loss;
  if (s.pass != pass) return;
  s.finished = true;
  s.d_output.bytes.reset();
  s.d_input = std::move(d_input);
  if (s.d_input && s.ordered) ship(micro_batch, s, true);
}

CAUSEWAY_DECL std::uint32_t micro_batch_state::queued() const {
  std::uint32_t n = 0;
  for (const auto& [m, s] : slots_) n += s.ordered && !s.finished && (ready_back(s) || ready_forth(s)) ? 1U : 0U;
  return n;
}

CAUSEWAY_DECL swarm_wire::report micro_batch_state::summary(std::uint32_t term) const {
  swarm_wire::report r{term, turn_, done_, swarm_wire::batch_set{done_.size()}, {}};
  for (const auto& [m, s] : slots_) {
    if (s.forwarded && !done_.has(m)) r.begun.add(m);
    if (done_.has(m) && stage_ + 1 == stages_) r.losses.push_back(s.loss);
  }
  if (r.losses.size() != r.done.count()) r.losses.clear();  // some are of earlier turns
  return r;
}

CAUSEWAY_DECL std::vector<std::pair<std::uint32_t, net::peer_id>> micro_batch_state::waiting_for() const {
  std::vector<std::pair<std::uint32_t, net::peer_id>> all;
  for (const auto& [m, s] : slots_) {
    if (!s.ordered || s.finished || ready_back(s) || ready_forth(s)) continue;
    all.emplace_back(m, neighbour(s, s.forwarded));
  }
  return all;
}

CAUSEWAY_DECL void micro_batch_state::slot::begin_anew(std::uint64_t from) {
  pass = from;
  forwarded = finished = false;
  if (input.pass < pass) input.bytes.reset();
  d_output.bytes.reset();
  output.reset();
  d_input.reset();
}

CAUSEWAY_DECL auto micro_batch_state::at(std::uint32_t micro_batch) -> slot& {
  const auto [place, fresh] = slots_.try_emplace(micro_batch);
  if (fresh) place->second.place = next_place_++;
  return place->second;
}

CAUSEWAY_DECL bool micro_batch_state::ready_forth(const slot& s) const {
  return !s.forwarded && (stage_ == 0 || (s.input.bytes && s.input.pass == s.pass));
}

CAUSEWAY_DECL net::peer_id micro_batch_state::neighbour(const slot& s, bool above) const {
  const std::size_t at = neighbouring_stage(s, above);
  return at < stages_ ? s.path.path[at] : 0;
}

CAUSEWAY_DECL std::size_t micro_batch_state::neighbouring_stage(const slot& s, bool above) const {
  std::size_t k = stage_;
  do {
    k = above ? k + 1 : k - 1;  // below stage 0: beyond all stages
  } while (k < stages_ && s.path.path[k] == 0);
  return k;
}

CAUSEWAY_DECL bool micro_batch_state::needs_again(const slot& s, bool above) const {
  const std::size_t k = neighbouring_stage(s, above);
  return k < stages_ && s.path.needs[k] == swarm_wire::stage_need::again;
}

CAUSEWAY_DECL void micro_batch_state::ship(std::uint32_t micro_batch, const slot& s, bool backward) {
  const std::size_t k = neighbouring_stage(s, !backward);
  if (k >= stages_ || s.path.needs[k] == swarm_wire::stage_need::finished) return;
  const std::uint64_t pass = s.path.passes[backward ? stage_ : k];
  shipments_.push_back({s.path.path[k], micro_batch, backward, backward ? s.d_input : s.output, pass});
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_MICRO_BATCH_STATE_IPP
