// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_RESUMABLE_STEP_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_RESUMABLE_STEP_IPP

#include <causeway/parallel/elastic/resumable_step.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL hasher& add_layout(hasher& h, const stage::layout& l) {
  for (const stage::replica& r : l.replicas) {
    h.add_value(r.micro_batches);
    for (const stage::assignment& s : r.assignments) h.add_value(s.peer).add_value(s.computes.first);
  }
  return h;
}

CAUSEWAY_DECL stage::begun_step resumable_step::described(const step_record& w, std::vector<nn::block_range> keeps) const {
  if (!is_of(w.state)) return {};
  return {step_->name, step_->replicas, static_cast<std::uint32_t>(step_->stages),
          static_cast<std::uint32_t>(step_->at.rank), std::move(keeps)};
}

CAUSEWAY_DECL result<void> resumable_step::resume(const step_exchange& exchange, bool assigned,
                                                  std::uint32_t micro_batches) {
  if (!assigned) step_.reset();
  CAUSEWAY_ASSIGN(told_, gather_progress(exchange.transport, exchange.progress, step_.get(), micro_batches, exchange.how));
  hasher h;
  for (const auto& bytes : told_) h.add_value(bytes.size()).add(bytes);
  agreed_ = h.finish();
  return {};
}

CAUSEWAY_DECL result<plan::step_progress> resumable_step::standing(const stage::replica& r,
                                                                   const step_exchange& exchange) const {
  const std::size_t stages = r.assignments.size();
  const auto peers = r.assigned();
  plan::step_progress p;
  for (std::size_t s = 0; s < stages; ++s) {
    const bool lost = r.assignments[s].peer == stage::nobody;
    const std::uint64_t owner = r.assignments[lost ? stage::shadow_of(s, stages) : s].peer;
    const auto rank = std::find(peers.begin(), peers.end(), owner) - peers.begin();
    p.owners.push_back(static_cast<std::uint32_t>(rank));
    if (told_.empty()) {
      p.units.emplace_back(r.micro_batches);
      continue;
    }
    auto rows = decode_progress(told_[exchange.index_of.at(owner)], r.micro_batches);
    if (!rows) {
      rows.error().where = "peer " + std::to_string(exchange.index_of.at(owner));
      return std::move(rows).error();
    }
    p.units.push_back(std::move((*rows)[lost ? 1 : 0]));
  }
  return p;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_RESUMABLE_STEP_IPP
