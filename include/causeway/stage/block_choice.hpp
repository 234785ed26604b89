// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_BLOCK_CHOICE_HPP
#define CAUSEWAY_STAGE_BLOCK_CHOICE_HPP

// Which blocks a server holds (Petals: Borzunov et al., 2022, section 3.2 and its code). A swarm is as quick as its slowest
// block, whose throughput is the sum over those who hold it. Who comes takes the place where that is least; who is there
// moves only if the least throughput rises by more than a margin, after all others have moved in answer as well. Functions
// of what servers announce alone: who knows the same decides the same.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/model_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage {

/// A server that holds blocks, and how many rows a second it takes through them.
struct served_span {
  net::peer_id id = 0;
  nn::block_range blocks{};
  double throughput = 0;
};

namespace detail {

/// A span is counted a little below what it has when it is taken out: its own place then looks best among equals.
inline constexpr double nothing = 1e-3;

inline void add_throughput(std::vector<double>& sums, const nn::block_range& r, double rows) {
  for (std::int64_t b = r.first; b < r.last; ++b) sums[static_cast<std::size_t>(b)] += rows;
}

[[nodiscard]] inline double least(const std::vector<double>& sums) { return *std::min_element(sums.begin(), sums.end()); }

}  // namespace detail

/// Rows a second through each block.
[[nodiscard]] inline std::vector<double> block_throughputs(std::span<const served_span> spans, std::int64_t layers) {
  std::vector<double> sums(static_cast<std::size_t>(layers), 0.0);
  for (const served_span& s : spans) detail::add_throughput(sums, s.blocks, s.throughput);
  return sums;
}

/// Where `count` blocks in a row are worst off: their throughputs, lowest first, are the least in lexicographic order; the
/// first such place. Precondition: 1 <= count <= blocks.
[[nodiscard]] inline std::int64_t worst_served(std::span<const double> throughputs, std::int64_t count) {
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

namespace detail {

/// Puts spans[i] where the others leave most to be done; whether that is another place.
inline bool settle_span(std::vector<served_span>& spans, std::size_t i, std::vector<double>& sums) {
  served_span& s = spans[i];
  add_throughput(sums, s.blocks, -s.throughput * (1 + nothing));
  const std::int64_t at = worst_served(sums, s.blocks.size());
  const bool moves = at != s.blocks.first;
  add_throughput(sums, s.blocks, s.throughput * nothing);
  s.blocks = {at, at + s.blocks.size()};
  add_throughput(sums, s.blocks, s.throughput);
  return moves;
}

}  // namespace detail

/// Where the server `self` of `spans` should begin instead; none where it stays: its place is the best, or the swarm would
/// have a gap meanwhile, or the least throughput would not become more than 1 / quality of what it is, when all move until
/// nobody wants to. Petals' quality is 0.75. Rounds in which all may move are at most as many as there are spans.
[[nodiscard]] inline std::optional<std::int64_t> better_place(std::vector<served_span> spans, net::peer_id self,
                                                              std::int64_t layers, double quality = 0.75) {
  std::vector<double> sums = block_throughputs(spans, layers);
  const double before = detail::least(sums);
  const auto own = std::find_if(spans.begin(), spans.end(), [self](const auto& s) { return s.id == self; });
  CAUSEWAY_EXPECT(own != spans.end());
  const auto place = static_cast<std::size_t>(own - spans.begin());
  const served_span mine = *own;
  std::vector<double> without = sums;
  detail::add_throughput(without, mine.blocks, -mine.throughput * (1 + detail::nothing));
  if (before > 0 && detail::least(without) <= 0) return std::nullopt;
  if (!detail::settle_span(spans, place, sums)) return std::nullopt;
  const std::int64_t moved_to = spans[place].blocks.first;
  bool anybody = true;
  for (std::size_t round = 0; anybody && round < spans.size(); ++round) {
    anybody = false;
    for (std::size_t i = 0; i < spans.size(); ++i) anybody = detail::settle_span(spans, i, sums) || anybody;
  }
  const double after = detail::least(sums);
  if (!(after > 0) || before >= quality * after) return std::nullopt;
  return moved_to;
}

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_BLOCK_CHOICE_HPP
