// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_BLOCK_CHOICE_IPP
#define CAUSEWAY_STAGE_IMPL_BLOCK_CHOICE_IPP

#include <causeway/stage/block_choice.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

/// A span is counted a little below what it has when it is taken out: its own place then looks best among equals.
inline constexpr double nothing = 1e-3;

[[nodiscard]] inline double least(const std::vector<double>& sums) { return *std::min_element(sums.begin(), sums.end()); }

CAUSEWAY_DECL void add_throughput(std::vector<double>& sums, const nn::block_range& r, double rows) {
  for (std::int64_t b = r.first; b < r.last; ++b) sums[static_cast<std::size_t>(b)] += rows;
}

/// Puts spans[i] where the others leave most to be done; whether that is another place.
CAUSEWAY_DECL bool move_to_worst_served(std::vector<served_span>& spans, std::size_t i, std::vector<double>& sums) {
  served_span& s = spans[i];
  add_throughput(sums, s.blocks, -s.throughput * (1 + nothing));
  const std::int64_t at = worst_served(sums, s.blocks.size());
  const bool moves = at != s.blocks.first;
  add_throughput(sums, s.blocks, s.throughput * nothing);
  s.blocks = {at, at + s.blocks.size()};
  add_throughput(sums, s.blocks, s.throughput);
  return moves;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL std::vector<double> block_throughputs(std::span<const served_span> spans, std::int64_t layers) {
  std::vector<double> sums(static_cast<std::size_t>(layers), 0.0);
  for (const served_span& s : spans) detail::add_throughput(sums, s.blocks, s.throughput);
  return sums;
}

CAUSEWAY_DECL std::int64_t worst_served(std::span<const double> throughputs, std::int64_t count) {
  CAUSEWAY_EXPECT(count >= 1 && count <= std::ssize(throughputs));
  std::vector<double> best;
  std::int64_t first = 0;
  for (std::int64_t at = 0; at + count <= std::ssize(throughputs); ++at) {
    const auto window = throughputs.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
    std::vector<double> sorted(window.begin(), window.end());
    std::sort(sorted.begin(), sorted.end());
    if (!best.empty() && !(sorted < best)) continue;
    best = std::move(sorted);
    first = at;
  }
  return first;
}

CAUSEWAY_DECL std::optional<std::int64_t> better_place(std::vector<served_span> spans, net::peer_id self,
                                                       std::int64_t layers, double quality) {
  std::vector<double> sums = block_throughputs(spans, layers);
  const double before = detail::least(sums);
  const auto own = std::find_if(spans.begin(), spans.end(), [self](const auto& s) { return s.id == self; });
  CAUSEWAY_EXPECT(own != spans.end());
  const auto place = static_cast<std::size_t>(own - spans.begin());
  const served_span mine = *own;
  std::vector<double> without = sums;
  detail::add_throughput(without, mine.blocks, -mine.throughput * (1 + detail::nothing));
  if (before > 0 && detail::least(without) <= 0) return std::nullopt;
  if (!detail::move_to_worst_served(spans, place, sums)) return std::nullopt;
  const std::int64_t moved_to = spans[place].blocks.first;
  bool anybody = true;
  for (std::size_t round = 0; anybody && round < spans.size(); ++round) {
    anybody = false;
    for (std::size_t i = 0; i < spans.size(); ++i) anybody = detail::move_to_worst_served(spans, i, sums) || anybody;
  }
  const double after = detail::least(sums);
  if (!(after > 0) || before >= quality * after) return std::nullopt;
  return moved_to;
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_BLOCK_CHOICE_IPP
