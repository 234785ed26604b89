// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_EXCHANGE_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_EXCHANGE_IPP

#include <causeway/parallel/swarm/swarm_table_exchange.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void swarm_wire::table_piece::blob::get(net::byte_reader& in) const {
  const auto bytes = in.get_bytes(table_piece_values * sizeof(float));
  if (bytes.size() % sizeof(float) != 0) in.refuse();
  if (!in.ok()) return;
  values.resize(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) in.refuse();
}

CAUSEWAY_DECL swarm_wire::table_piece answer(const swarm_wire::table_request& asked, std::span<const float> table,
                                             std::uint64_t version) {
  swarm_wire::table_piece p{asked.step, asked.piece, version, {}};
  const std::size_t from = asked.piece * swarm_wire::table_piece_values;
  if (from >= table.size()) return p;
  const auto part = table.subspan(from, std::min(swarm_wire::table_piece_values, table.size() - from));
  p.values.assign(part.begin(), part.end());
  return p;
}

CAUSEWAY_DECL bool swarm_table_fetch::refused(net::peer_id peer) const { return refused_.contains(peer); }

CAUSEWAY_DECL void swarm_table_fetch::want(std::uint64_t step, std::size_t length) {
  if (wanted_ && step_ == step && values_.size() == length) return;
  *this = {};
  wanted_ = true;
  step_ = step;
  values_.resize(length);
}

CAUSEWAY_DECL void swarm_table_fetch::keep_only(std::uint64_t step) {
  if (step_ != step) *this = {};
}

CAUSEWAY_DECL void swarm_table_fetch::ask(net::peer_id from) {
  source_ = from;
  there_.assign(pieces(), false);
  got_ = next_ = 0;
}

CAUSEWAY_DECL std::vector<swarm_wire::table_request> swarm_table_fetch::take_requests() {
  std::vector<swarm_wire::table_request> due;
  if (source_ == 0 || complete()) return due;
  for (; next_ < pieces() && next_ < got_ + window; ++next_) due.push_back({step_, next_});
  return due;
}

CAUSEWAY_DECL bool swarm_table_fetch::take(net::peer_id from, const swarm_wire::table_piece& p) {
  if (!wanted_ || complete() || from != source_ || p.step != step_) return false;
  if (p.values.empty() || p.piece >= pieces() || p.values.size() != size_of(p.piece)) {
    refused_.insert(from);
    source_ = 0;
    return false;
  }
  if (got_ > 0 && p.version != version_) {  // its sum was made again meanwhile
    source_ = 0;
    return false;
  }
  version_ = p.version;
  if (there_[p.piece]) return false;
  std::copy(p.values.begin(), p.values.end(), values_.begin() + p.piece * swarm_wire::table_piece_values);
  there_[p.piece] = true;
  ++got_;
  return complete();
}

CAUSEWAY_DECL void swarm_table_fetch::lost(net::peer_id peer) {
  if (source_ == peer) source_ = 0;
  refused_.erase(peer);
}

CAUSEWAY_DECL std::uint32_t swarm_table_fetch::pieces() const noexcept {
  return static_cast<std::uint32_t>((values_.size() + swarm_wire::table_piece_values - 1) / swarm_wire::table_piece_values);
}

CAUSEWAY_DECL std::size_t swarm_table_fetch::size_of(std::uint32_t piece) const noexcept {
  return std::min(swarm_wire::table_piece_values, values_.size() - piece * swarm_wire::table_piece_values);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_TABLE_EXCHANGE_IPP
