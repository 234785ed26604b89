// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_ROWS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_ROWS_IPP

#include <causeway/parallel/elastic/cohort_rows.hpp>

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

/// What each peer computes, and keeps besides; in the order of the model, where all are needed.
CAUSEWAY_DECL std::vector<stage::assignment> in_order(const stage::cluster_snapshot& g,
                                                      std::span<const cohort_member> members,
                                                      std::span<const std::size_t> places) {
  std::vector<stage::assignment> row;
  for (const std::size_t p : places) {
    if (g.peers[p].computes.size() < 1) continue;
    row.push_back({g.peers[p].id, g.peers[p].computes});
    stage::assignment& one = row.back();
    for (const nn::block_range& kept : members[p].keeps) {
      if (kept.size() > 0) one.keeps.push_back(kept);
    }
    if (one.keeps == std::vector{one.computes}) one.keeps.clear();
  }
  const auto before = [](const stage::assignment& a, const stage::assignment& b) {
    return std::pair{a.computes.first, -a.computes.last} < std::pair{b.computes.first, -b.computes.last};
  };
  std::sort(row.begin(), row.end(), before);
  return row;
}

CAUSEWAY_DECL bool computes_all(std::span<const stage::assignment> row, std::int64_t layers) {
  std::int64_t next = 0;
  for (const stage::assignment& s : row) {
    if (s.computes.first != next) return false;
    next = s.computes.last;
  }
  return next == layers;
}

/// Whose stage another one computes already is left out; who keeps what is missing behind its own stage, or before the
/// first, computes that, too. None: nobody does.
CAUSEWAY_DECL std::vector<stage::assignment> mended_row(const std::vector<stage::assignment>& row, std::int64_t layers) {
  std::vector<stage::assignment> made;
  for (const stage::assignment& s : row) {
    if (made.empty() || s.computes.first >= made.back().computes.last) made.push_back(s);
  }
  if (made.empty()) return {};
  std::vector<std::vector<nn::block_range>> held;
  for (const stage::assignment& s : made) held.push_back(s.held());
  made.front().computes.first = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].computes.last = i + 1 < made.size() ? made[i + 1].computes.first : layers;
    if (!nn::model_part{held[i]}.holds(made[i].computes)) return {};
  }
  return made;
}

/// Who is there in its place, and nobody in those of others, each of which has a shadow that is there. None: one has not.
/// Whose stage is a part of what is missing keeps no more than one stage besides, so what is missing in one piece is one.
CAUSEWAY_DECL std::vector<stage::assignment> row_with_gaps(const std::vector<stage::assignment>& row, std::int64_t layers) {
  std::vector<stage::assignment> made;
  std::int64_t next = 0;
  for (const stage::assignment& s : row) {
    if (s.computes.first > next) made.push_back({stage::nobody, {next, s.computes.first}});
    made.push_back(s);
    next = s.computes.last;
  }
  if (next < layers) made.push_back({stage::nobody, {next, layers}});
  for (std::size_t s = 0; s < made.size(); ++s) {
    const stage::assignment& shadow = made[stage::shadow_of(s, made.size())];
    const bool is_kept = shadow.peer != stage::nobody && nn::model_part{shadow.held()}.holds(made[s].computes);
    if (made[s].peer == stage::nobody && !is_kept) return {};
  }
  return computes_all(made, layers) ? made : std::vector<stage::assignment>{};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint64_t name_of_row(const stage::replica& r) {
  hasher h;
  for (const stage::assignment& s : r.assignments) h.add_value(s.peer).add_value(s.computes.first);
  return h.finish();
}

CAUSEWAY_DECL std::array<nn::block_range, 2> as_kept(std::span<const nn::block_range> held) {
  std::array<nn::block_range, 2> kept{};
  std::copy_n(held.begin(), std::min(held.size(), kept.size()), kept.begin());
  return kept;
}

CAUSEWAY_DECL std::vector<stage::assignment> whole_row(const stage::cluster_snapshot& g,
                                                       std::span<const cohort_member> members,
                                                       std::span<const std::size_t> places, bool keeps_work) {
  auto all = detail::in_order(g, members, places);
  if (detail::computes_all(all, g.layers) && !keeps_work) return all;
  struct company {
    std::uint64_t steps, name;
    std::vector<std::size_t> places{};
  };
  std::vector<company> companies;
  for (const std::size_t p : places) {
    const auto same = [&](const company& c) { return c.steps == members[p].steps && c.name == members[p].taken_in; };
    if (std::none_of(companies.begin(), companies.end(), same))
      companies.push_back({members[p].steps, members[p].taken_in});
  }
  for (company& c : companies) {
    for (const std::size_t p : places) {
      const cohort_member& m = members[p];
      const bool is_behind = m.steps + 1 == c.steps && m.complete_in == c.name;
      if (is_behind || (m.steps == c.steps && m.taken_in == c.name)) c.places.push_back(p);
    }
  }
  std::sort(companies.begin(), companies.end(), [](const company& a, const company& b) {
    return std::tuple{b.steps, b.places.size(), a.name} < std::tuple{a.steps, a.places.size(), b.name};
  });
  for (const company& c : companies) {
    const auto row = detail::in_order(g, members, c.places);
    auto made = keeps_work ? detail::row_with_gaps(row, g.layers) : detail::mended_row(row, g.layers);
    if (!made.empty()) return made;
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORT_ROWS_IPP
