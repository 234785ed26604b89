// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_VOTE_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_VOTE_IPP

#include <causeway/parallel/elastic/step_vote.hpp>

#include <bit>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> step_vote::propose(step_group& group) {
  proposes_ = false;
  if (!std::isfinite(told_.norm)) return fail(errc::non_finite, "gradient", "its norm is not finite");
  return group.propose(told_);
}

CAUSEWAY_DECL void step_vote::name(const pipeline_peer& peer, std::uint64_t step, std::uint64_t agreed,
                                   std::uint64_t interval, bool moves) {
  hasher h;
  for (const auto& [id, index] : peer.index_of) h.add_value(id).add_value(index);
  add_layout(h, peer.layout).add_value(agreed).add_value(peer.record().state);
  next_ = {step, h.finish(), 0, peer.record().history, 0, peer.record().updates + (moves ? 1 : 0)};
  next_.history.took_step(next_.updates, interval, peer.layout, peer.staying);
  complete_ = true;
}

CAUSEWAY_DECL step_record step_vote::next_record(double loss, double norm) const {
  step_record next = next_;
  next.loss = loss;
  next.norm = norm;
  next.state = mix(next_.state, std::bit_cast<std::uint64_t>(norm));
  return next;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_VOTE_IPP
