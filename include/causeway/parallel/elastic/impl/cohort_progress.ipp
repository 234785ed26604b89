// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_PROGRESS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_PROGRESS_IPP

#include <causeway/parallel/elastic/cohort_progress.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL cohort_member cohort_progress::described(std::uint64_t step, const step_record& record) const {
  cohort_member own = now_;
  own.speed = speed_;
  if (spoilt_ || (own.steps == 0 && step != record.step)) own.evaluated = 0;  // the step begins anew
  return own;
}

CAUSEWAY_DECL void cohort_progress::start_again() noexcept {
  if (now_.cohort != 0) now_.cohort = mix(now_.cohort, now_.steps, 1);
}

CAUSEWAY_DECL void cohort_progress::met(std::span<const cohort_member> members) noexcept {
  in_round_ = std::any_of(members.begin(), members.end(), [](const cohort_member& m) { return m.steps > 0; });
  begins_round_ = !in_round_;
}

CAUSEWAY_DECL result<void> cohort_progress::catch_up(std::span<const cohort_member> members) {
  for (const cohort_member& m : members) {
    if (m.cohort != now_.cohort || m.state != now_.state || m.steps != now_.steps + 1) continue;
    if (now_.complete_in == 0 || now_.complete_in != m.taken_in) {
      now_.cohort = 0;
      return fail(errc::protocol, "replica", "a peer took a step that this one has no gradient of");
    }
    note_sums(m.loss, m.norm, m.exchanges != 0);
    told_ = true;
  }
  return {};
}

CAUSEWAY_DECL void cohort_progress::go_on_with(pipeline_peer& peer) {
  computes_ = peer.assignment != nullptr ? peer.assignment->computes : nn::block_range{};
  peer.held.assigned(computes_, static_cast<std::uint32_t>(peer.place.replica));
}

CAUSEWAY_DECL bool cohort_progress::join_cohort(pipeline_peer& peer, std::uint64_t step) {
  const step_record& record = peer.record();
  const bool anew = now_.state != record.state || now_.steps > 0 || step != record.step || spoilt_ || rested_;
  given_up_steps_ += now_.steps;
  trained_ = 0;
  told_ = spoilt_ = rested_ = under_way_ = false;
  now_ = {.state = record.state, .evaluated = anew ? 0 : now_.evaluated};
  go_on_with(peer);
  if (peer.assignment == nullptr) return anew;
  now_.slots = static_cast<std::uint32_t>(peer.layout.replicas.size());
  now_.slot = static_cast<std::uint32_t>(peer.place.replica);
  now_.first = peer.layout.first_micro_batch(now_.slot);
  now_.share = peer.layout.replicas[now_.slot].micro_batches;
  now_.cohort = peer.new_cohort(now_.slot);
  return anew;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_PROGRESS_IPP
