// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_GATHERED_STEPS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_GATHERED_STEPS_IPP

#include <causeway/parallel/elastic/gathered_steps.hpp>

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/parallel/elastic/resumable_step.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint64_t gathered_steps::name_of(const stage::layout& l) {
  hasher h;
  return add_layout(h, l).finish();
}

CAUSEWAY_DECL std::uint64_t gathered_steps::name(const step_record& now) const {
  return is_of(now) ? mix(mix(of_, layout_), mix(steps_, samples_), exchanges_) | 1U : 0;
}

CAUSEWAY_DECL bool gathered_steps::goes_on(const pipeline_peer& peer, const std::vector<exchange_share>& all) const {
  const std::uint64_t ours = name(peer.record());
  const auto has_ours = [ours](const exchange_share& s) { return s.gathered == ours; };
  return std::all_of(all.begin(), all.end(), has_ours) && (ours == 0 || layout_ == name_of(peer.layout));
}

CAUSEWAY_DECL bool gathered_steps::enough_with(const pipeline_peer& peer, std::uint64_t step, std::uint64_t samples,
                                               bool ends) {
  if (!is_of(peer.record())) steps_ = samples_ = 0;
  if (step < peer.record().step + steps_) return false;
  of_ = peer.record().state;
  layout_ = name_of(peer.layout);
  exchanges_ = ends || samples_ + samples >= peer.group->state().round_samples ? 1 : 0;
  if (exchanges_ != 0) return true;
  ++steps_;
  samples_ += samples;
  return false;
}

CAUSEWAY_DECL void gathered_steps::laid_out(const stage::layout& l) {
  if (has_any() && layout_ != name_of(l)) layout_ = 0;
}

CAUSEWAY_DECL void gathered_steps::taken() noexcept {
  last_round_ = steps_ + 1;
  steps_ = exchanges_ = 0;
}

CAUSEWAY_DECL void gathered_steps::give_up(const pipeline_peer& peer) {
  if (has_any()) peer.group->state().begin_anew();
  steps_ = exchanges_ = 0;
}

CAUSEWAY_DECL bool gathered_steps::is_due(const step_record& now, std::uint64_t step, std::uint64_t every) const noexcept {
  if (every == 0 || now.step != step) return false;
  return now.updates == 1 || step / every > (step - last_round_) / every;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_GATHERED_STEPS_IPP
