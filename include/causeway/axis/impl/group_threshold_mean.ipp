// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_GROUP_THRESHOLD_MEAN_IPP
#define CAUSEWAY_AXIS_IMPL_GROUP_THRESHOLD_MEAN_IPP

#include <causeway/axis/group_threshold_mean.hpp>
#include <causeway/compress/group_map.hpp>

#include <algorithm>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL group_threshold_exchange::group_threshold_exchange(group_threshold_options options)
    : options_{options}, mean_{compress::value_groups{}, collective::contributor_mean{.over_all = !options.in_parts}} {}

/// Groups of a tensor of `size` values that each of `peers` sends: in f32, as StellaTrain counts them.
inline std::size_t groups_to_send(std::size_t size, float share, std::uint32_t peers) {
  const float values = static_cast<float>(size) * (share / static_cast<float>(peers));
  return std::max(std::size_t{1}, static_cast<std::size_t>(values) / compress::group_map::length);
}

CAUSEWAY_DECL result<void> group_threshold_exchange::choose(const collective::exchange_row& row,
                                                            const compress::message_context& ctx, std::uint32_t self,
                                                            std::uint32_t peers) {
  if (!(options_.share > 0 && options_.share <= 1)) {
    return fail(errc::invalid_argument, std::string{name}, "a share that is not above 0 and at most 1");
  }
  const compress::group_map map{ctx.matrices, row.values.size()};
  if (ctx.round != round_) values_ = next_values_, rises_ = next_rises_;
  round_ = ctx.round;
  values_.resize(map.tensors().size());
  rises_.resize(map.tensors().size());
  next_values_ = values_, next_rises_ = rises_;
  chosen_.clear();
  most_ = 0;
  const std::uint64_t part = (ctx.round + self) % peers;
  for (std::size_t t = 0; t < map.tensors().size(); ++t) {
    const compress::group_map::tensor& tensor = map.tensors()[t];
    const std::size_t count = groups_to_send(tensor.size, options_.share, peers);
    most_ += count;
    if (row.weight == 0) continue;
    const auto first = options_.in_parts ? static_cast<std::uint32_t>(tensor.groups * part / peers) : 0;
    const auto last = options_.in_parts ? static_cast<std::uint32_t>(tensor.groups * (part + 1) / peers) : tensor.groups;
    const auto sums = compress::group_sums(ctx.pool, row.values.subspan(tensor.offset, tensor.size), first, last);
    compress::group_threshold threshold{values_[t], rises_[t]};
    threshold.choose(sums, std::min(count, sums.size()), tensor.first + first, chosen_);
    next_values_[t] = threshold.value;
    next_rises_[t] = threshold.rise;
  }
  return {};
}

CAUSEWAY_DECL result<void> group_threshold_exchange::begin(const collective::exchange_port& port,
                                                           const collective::exchange_row& row,
                                                           const compress::message_context& ctx) {
  CAUSEWAY_TRY(choose(row, ctx, port.transport.self(), port.transport.size()));
  return mean_.begin(port, row, context(ctx));
}

CAUSEWAY_DECL result<void> group_threshold_exchange::finish(const collective::exchange_port& port,
                                                            const collective::exchange_row& row,
                                                            const compress::message_context& ctx) {
  return mean_.finish(port, row, context(ctx));
}

CAUSEWAY_DECL result<void> group_threshold_exchange::alone(const collective::exchange_row& row,
                                                           const compress::message_context& ctx) {
  CAUSEWAY_TRY(choose(row, ctx, 0, 1));
  const compress::group_map map{ctx.matrices, row.values.size()};
  std::vector<float> sent(row.values.size());
  for (const index_range r : map.places(chosen_))
    std::copy(row.values.data() + r.begin, row.values.data() + r.end, sent.data() + r.begin);
  for (std::size_t i = 0; i < row.residual.size(); ++i) row.residual[i] = row.values[i] - sent[i];
  std::copy(sent.begin(), sent.end(), row.values.begin());
  return {};
}

CAUSEWAY_DECL void group_threshold_exchange::cancel() { mean_.cancel(); }

static_assert(collective::Exchange<group_threshold_exchange, compress::message_context>);

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

#endif  // CAUSEWAY_AXIS_IMPL_GROUP_THRESHOLD_MEAN_IPP
