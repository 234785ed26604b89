// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_OWNERSHIP_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_OWNERSHIP_IPP

#include <causeway/parallel/elastic/block_ownership.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void block_ownership::begin(const nn::model_part& part, std::int64_t layers,
                                          std::optional<block_store> store) {
  store_ = std::move(store);
  if (!valid_.empty()) return;  // restored
  for (std::int64_t b = 0; b < layers; ++b) valid_.push_back(part.holds(b) ? 1 : 0);
  began_.resize(valid_.size());
}

CAUSEWAY_DECL bool block_ownership::is_ready(const nn::model_part& part, const step_record& w) const {
  bool ready = is_at(w);
  for (std::size_t b = 0; b < valid_.size(); ++b) {
    ready = ready && (!part.holds(static_cast<std::int64_t>(b)) || valid_[b] != 0);
  }
  return ready;
}

CAUSEWAY_DECL stage::present_peer block_ownership::described(const step_record& w, std::int64_t layers) const {
  stage::present_peer p;
  p.replica = replica_;
  p.computes = computes_;
  for (std::int64_t b = 0; b < layers; ++b) {
    if (!has(w, b)) continue;
    if (p.holds.empty() || p.holds.back().last != b) p.holds.push_back({b, b});
    p.holds.back().last = b + 1;
    if (w.step == 0) continue;
    const auto known = squares_.find(b);
    p.squares.push_back(known != squares_.end() ? known->second : 0);
  }
  return p;
}

CAUSEWAY_DECL std::uint64_t block_ownership::began(const nn::model_part& part) const {
  std::uint64_t newest = 0;
  for (std::size_t b = 0; b < began_.size(); ++b) {
    if (part.holds(static_cast<std::int64_t>(b))) newest = std::max(newest, began_[b]);
  }
  return newest;
}

CAUSEWAY_DECL void block_ownership::assigned(const nn::block_range& computes, std::uint32_t replica) noexcept {
  computes_ = computes;
  replica_ = replica;
}

CAUSEWAY_DECL void block_ownership::went_back(const step_record& w, const saved_blocks& found) {
  forget();
  stored_ = found;
  state_ = w.state;
}

CAUSEWAY_DECL void block_ownership::moved_to(std::uint64_t state, std::map<std::int64_t, double> squares) {
  squares_ = std::move(squares);
  state_ = state;
  attic_.clear();
  stored_.reset();
  if (computes_.size() == 0) std::fill(valid_.begin(), valid_.end(), std::uint8_t{0});
}

CAUSEWAY_DECL bool block_ownership::has(const step_record& w, std::int64_t block) const {
  if (!is_at(w)) return false;
  return w.step == 0 || is_stored(block) || valid_[static_cast<std::size_t>(block)] != 0 || attic_.contains(block);
}

CAUSEWAY_DECL void block_ownership::forget() {
  stored_.reset();
  std::fill(valid_.begin(), valid_.end(), std::uint8_t{0});
  attic_.clear();
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_OWNERSHIP_IPP
