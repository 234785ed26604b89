// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_STAGE_PEERS_IPP
#define CAUSEWAY_TRAIN_IMPL_STAGE_PEERS_IPP

#include <causeway/train/stage_peers.hpp>

#include <causeway/collective/gather.hpp>
#include <causeway/core/error.hpp>
#include <causeway/kernels/reduce.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL void stage_peers::form(net::any_transport& world, std::vector<net::peer_index> members,
                                     std::vector<index_range> copies) {
  world_ = &world;
  members_ = std::move(members);
  copies_ = std::move(copies);
}

CAUSEWAY_DECL bool stage_peers::is_first() const {
  if (first_ != nullptr) return first_(asked_of_);
  return count() == 1 || members_.front() == world_->self();
}

CAUSEWAY_DECL result<void> stage_peers::sum(std::span<double> values, const collective::collective_options& options) {
  if (ask_ != nullptr) return ask_(asked_of_, values, options);
  if (count() == 1) return {};
  collective::group_view stages{*world_, members_};
  std::vector<double> all(count() * values.size());
  const auto own = std::span{all}.subspan(stages.self() * values.size(), values.size());
  std::copy(values.begin(), values.end(), own.begin());
  CAUSEWAY_TRY(collective::all_gather(stages, {.channel = collective::channels::stages, .step = asked_}, std::as_bytes(own),
                                      std::as_writable_bytes(std::span{all}), options));
  ++asked_;
  std::fill(values.begin(), values.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
  return {};
}

CAUSEWAY_DECL result<double> stage_peers::of_first(const result<double>& found,
                                                   const collective::collective_options& options) {
  if (count() == 1) return found;
  std::array<double, 2> said{};  // whether it has failed, and what it has found
  if (is_first()) said = found ? std::array{0.0, *found} : std::array{1.0, 0.0};
  const auto told = sum(said, options);
  if (is_first()) return found;
  if (!told) return told.error();
  if (said[0] == 0) return said[1];
  return fail(errc::peer_lost, "the first stage", "it could not ask the other replicas; its own error says why");
}

CAUSEWAY_DECL result<float> stage_peers::norm(float own, const collective::collective_options& options) {
  double squares = static_cast<double>(own) * own;
  CAUSEWAY_TRY(sum(std::span{&squares, 1}, options));
  return static_cast<float>(std::sqrt(squares));
}

CAUSEWAY_DECL result<void> stage_peers::refuse_copies(const char* policy, const collective::collective_options& options) {
  if (ask_ != nullptr) return {};  // who lets stages come and go refuses them
  auto copies = static_cast<double>(copies_.size());
  CAUSEWAY_TRY(sum(std::span{&copies, 1}, options));
  if (copies == 0) return {};
  return fail(errc::unsupported, policy,
              "two stages hold the same parameters, of which their groups would make two versions; take a model whose "
              "token table is not tied, and a schedule of one way");
}

CAUSEWAY_DECL double stage_peers::squares(thread_pool& pool, std::span<const float> row,
                                          std::span<const index_range> ranges) const {
  if (copies_.empty()) return kernels::sum_of_squares(pool, row.data(), static_cast<std::int64_t>(row.size()));
  double sum = 0;
  const float* values = row.data();
  for (const index_range r : ranges) {
    std::int64_t at = r.begin;
    for (const index_range c : copies_) {  // in rising order
      const std::int64_t begin = std::clamp(c.begin, at, r.end);
      sum += kernels::sum_of_squares(pool, values + (at - r.begin), begin - at);
      at = std::clamp(c.end, begin, r.end);
    }
    sum += kernels::sum_of_squares(pool, values + (at - r.begin), r.end - at);
    values += r.size();
  }
  return sum;
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_STAGE_PEERS_IPP
