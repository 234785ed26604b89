// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_FRAGMENTS_IPP
#define CAUSEWAY_AXIS_IMPL_FRAGMENTS_IPP

#include <causeway/axis/fragments.hpp>

#include <algorithm>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL void fragment::add(const parameter_segment& s, std::int64_t end) {
  matrices.push_back({size, static_cast<std::size_t>(s.rows), static_cast<std::size_t>(s.columns), s.kind});
  if (!ranges.empty() && ranges.back().end == s.offset) {
    ranges.back().end = end;
  } else {
    ranges.push_back({s.offset, end});
  }
  const auto begin = static_cast<std::int64_t>(size);
  size += static_cast<std::size_t>(end - s.offset);
  if (end > s.offset + s.size()) padding.push_back({begin + s.size(), static_cast<std::int64_t>(size)});
}

CAUSEWAY_DECL void gather(const fragment& f, std::span<const float> all, std::span<float> row) {
  auto to = row.begin();
  for (const index_range r : f.ranges) to = std::copy(all.begin() + r.begin, all.begin() + r.end, to);
}

CAUSEWAY_DECL void scatter(const fragment& f, std::span<const float> row, std::span<float> all) {
  auto from = row.begin();
  for (const index_range r : f.ranges) {
    std::copy(from, from + r.size(), all.begin() + r.begin);
    from += r.size();
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL std::int64_t end_of(std::span<const parameter_segment> segments, std::size_t s, std::size_t length) {
  return s + 1 < segments.size() ? segments[s + 1].offset : static_cast<std::int64_t>(length);
}

CAUSEWAY_DECL std::size_t blocks_of(std::span<const parameter_segment> segments) {
  // The head is in the block after the last; a model without a head of its own still has its last norm there.
  int most = -1;
  for (const auto& s : segments) most = std::max(most, s.block);
  return most < 0 ? 0 : static_cast<std::size_t>(most);
}

CAUSEWAY_DECL result<std::vector<fragment>> numbered(result<std::vector<fragment>> all) {
  for (std::size_t i = 0; all && i < all->size(); ++i) (*all)[i].number = i;
  return all;
}

CAUSEWAY_DECL std::size_t block_of(const parameter_segment& s, std::size_t layers) {
  return static_cast<std::size_t>(std::clamp(s.block, 0, static_cast<int>(layers) - 1));
}

CAUSEWAY_DECL std::size_t fragment_with(std::span<const fragment> fragments, const parameter_segment& s) {
  const auto has_it = [&](const fragment& f) {
    return std::any_of(f.ranges.begin(), f.ranges.end(),
                       [&](const index_range& r) { return r.begin <= s.offset && s.offset < r.end; });
  };
  return static_cast<std::size_t>(std::find_if(fragments.begin(), fragments.end(), has_it) - fragments.begin());
}

// What `of_all` has of each tensor of a whole model, of those of a part of it, which has them in the same order.
CAUSEWAY_DECL std::vector<std::size_t> of_part(std::span<const parameter_segment> whole,
                                               const std::vector<std::size_t>& of_all,
                                               std::span<const parameter_segment> part) {
  std::vector<std::size_t> of_these;
  for (std::size_t s = 0; s < whole.size() && of_these.size() < part.size(); ++s) {
    if (whole[s].name == part[of_these.size()].name) of_these.push_back(of_all[s]);
  }
  CAUSEWAY_EXPECT(of_these.size() == part.size());
  return of_these;
}

// Of each tensor the number of its fragment: the largest tensor first, each to the smallest fragment so far.
CAUSEWAY_DECL std::vector<std::size_t> fragment_of_each(const whole_model& all, std::size_t count) {
  const auto size = [&](std::size_t s) { return end_of(all.segments, s, all.length) - all.segments[s].offset; };
  std::vector<std::size_t> order(all.segments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  std::vector<std::int64_t> filled(count);
  std::vector<std::size_t> of(all.segments.size());
  for (const std::size_t s : order) {
    const auto least = std::min_element(filled.begin(), filled.end());
    *least += size(s);
    of[s] = static_cast<std::size_t>(least - filled.begin());
  }
  return of;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL std::vector<fragment> single_blocks(std::span<const parameter_segment> segments, std::size_t length,
                                                  const whole_model& of, std::span<const fragment> fragments) {
  std::vector<std::size_t> rows;  // of each tensor of the whole model: its fragment, and its block
  for (const parameter_segment& s : of.segments) {
    const std::size_t block = of.shares_table && rows.empty() ? of.blocks : detail::block_of(s, of.blocks);
    rows.push_back(detail::fragment_with(fragments, s) * (of.blocks + 1) + block);
  }
  const std::vector<std::size_t> of_all = rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const auto of_these = detail::of_part(of.segments, of_all, segments);
  auto all = detail::cut_by(segments, length, rows.size(), [&](std::size_t s) {
    return static_cast<std::size_t>(std::lower_bound(rows.begin(), rows.end(), of_these[s]) - rows.begin());
  });
  for (std::size_t r = 0; r < rows.size(); ++r) {
    all[r].number = rows[r] / (of.blocks + 1);
    all[r].block = rows[r] % (of.blocks + 1);
  }
  return all;
}

CAUSEWAY_DECL result<std::vector<fragment>> whole::cut(std::span<const parameter_segment> segments, std::size_t length,
                                                       const whole_model&) const {
  if (segments.empty()) return std::vector<fragment>{{{{0, static_cast<std::int64_t>(length)}}, {{0, 1, length}}, length}};
  return detail::cut_by(segments, length, 1, [](std::size_t) { return 0U; });
}

CAUSEWAY_DECL result<std::vector<fragment>> balanced::cut(std::span<const parameter_segment> segments, std::size_t length,
                                                          const whole_model& of) const {
  const whole_model all = of.segments.empty() ? whole_model{segments, length} : of;
  if (count == 0 || count > all.segments.size()) {
    return fail(errc::invalid_argument, "balanced",
                std::to_string(count) + " fragments of a model with " + std::to_string(all.segments.size()) +
                    " tensors; take between 1 and that many");
  }
  const auto of_these = detail::of_part(all.segments, detail::fragment_of_each(all, count), segments);
  return detail::cut_by(segments, length, count, [&](std::size_t s) { return of_these[s]; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_FRAGMENTS_IPP
