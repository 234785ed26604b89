// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_K_MEANS_IPP
#define CAUSEWAY_DATA_IMPL_K_MEANS_IPP

#include <causeway/data/k_means.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

namespace detail {

CAUSEWAY_DECL double squared_distance(std::span<const float> a, std::span<const float> b) noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

/// Of each row the nearest centre and its squared distance.
struct nearest_centres {
  std::vector<std::uint32_t> centre;
  std::vector<double> distance;

  CAUSEWAY_DECL nearest_centres(const feature_rows& rows, const feature_rows& centres)
      : centre(rows.size()), distance(rows.size(), std::numeric_limits<double>::infinity()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t c = 0; c < centres.size(); ++c) {
        const double d = squared_distance(rows[i], centres[c]);
        if (d >= distance[i]) continue;
        distance[i] = d;
        centre[i] = static_cast<std::uint32_t>(c);
      }
    }
  }

  /// Every centre gets a row, if there are as many: one without takes the farthest row of those that have several.
  CAUSEWAY_DECL void fill_empty(std::size_t centres) {
    std::vector<std::size_t> count(centres, 0);
    for (const std::uint32_t c : centre) ++count[c];
    for (std::size_t c = 0; c < centres; ++c) {
      std::size_t farthest = centre.size();
      for (std::size_t i = 0; count[c] == 0 && i < centre.size(); ++i) {
        if (count[centre[i]] > 1 && (farthest == centre.size() || distance[i] > distance[farthest])) farthest = i;
      }
      if (farthest == centre.size()) continue;
      --count[centre[farthest]];
      ++count[c];
      centre[farthest] = static_cast<std::uint32_t>(c);
      distance[farthest] = 0;
    }
  }
};

/// A centre without a row stays where it is.
CAUSEWAY_DECL void move_to_means(const feature_rows& rows, std::span<const std::uint32_t> centre,
                                 std::vector<float>& centres) {
  std::vector<double> sums(centres.size(), 0.0);
  std::vector<std::size_t> count(centres.size() / rows.width, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ++count[centre[i]];
    for (std::size_t j = 0; j < rows.width; ++j) sums[centre[i] * rows.width + j] += static_cast<double>(rows[i][j]);
  }
  for (std::size_t at = 0; at < centres.size(); ++at) {
    const std::size_t members = count[at / rows.width];
    if (members > 0) centres[at] = static_cast<float>(sums[at] / static_cast<double>(members));
  }
}

CAUSEWAY_DECL std::vector<float> columns_of(const feature_rows& rows, std::size_t first, std::size_t count) {
  std::vector<float> part;
  part.reserve(rows.size() * count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto columns = rows[i].subspan(first, count);
    part.insert(part.end(), columns.begin(), columns.end());
  }
  return part;
}

/// Each row of `a` before each of `b`, those of b changing first.
CAUSEWAY_DECL std::vector<float> crossed(const feature_rows& a, const feature_rows& b) {
  std::vector<float> both;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      both.insert(both.end(), a[i].begin(), a[i].end());
      both.insert(both.end(), b[j].begin(), b[j].end());
    }
  }
  return both;
}

}  // namespace detail

CAUSEWAY_DECL std::vector<float> spread_centres(const feature_rows& rows, std::uint32_t k, std::uint64_t seed) {
  constexpr std::uint64_t centres_stream = 0x63656E74726573;  // "centres"
  rng random{seed, mix(centres_stream)};
  std::vector<float> centres;
  std::vector<double> distance(rows.size(), std::numeric_limits<double>::infinity());
  std::size_t next = random.below(rows.size());
  for (std::uint32_t c = 0; c < k; ++c) {
    const auto chosen = rows[next];
    centres.insert(centres.end(), chosen.begin(), chosen.end());
    double total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      distance[i] = std::min(distance[i], detail::squared_distance(rows[i], chosen));
      total += distance[i];
    }
    double left = static_cast<double>(random.next() >> 11U) * 0x1.0p-53 * total;
    next = 0;
    while (next + 1 < rows.size() && left >= distance[next]) left -= distance[next++];
  }
  return centres;
}

CAUSEWAY_DECL std::vector<float> moved_centres(const feature_rows& rows, std::vector<float> centres, std::uint32_t rounds) {
  std::vector<std::uint32_t> before;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    detail::nearest_centres now{rows, {centres, rows.width}};
    now.fill_empty(centres.size() / rows.width);
    if (now.centre == before) break;
    detail::move_to_means(rows, now.centre, centres);
    before = std::move(now.centre);
  }
  return centres;
}

CAUSEWAY_DECL result<std::vector<float>> k_means(const feature_rows& rows, std::uint32_t k,
                                                 const k_means_options& options) {
  if (k == 0 || rows.size() < k) {
    return fail(errc::invalid_argument, "k_means",
                std::to_string(k) + " clusters of " + std::to_string(rows.size()) + " rows; use 1 up to as many as rows");
  }
  return moved_centres(rows, spread_centres(rows, k, options.seed), options.rounds);
}

CAUSEWAY_DECL result<std::vector<float>> product_k_means(const feature_rows& rows, std::span<const std::uint32_t> versions,
                                                         const k_means_options& options) {
  const std::size_t levels = versions.size();
  if (levels == 0 || levels > rows.width) {
    return fail(errc::invalid_argument, "product_k_means",
                std::to_string(levels) + " levels of " + std::to_string(rows.width) + " columns; use 1 up to as many");
  }
  std::vector<float> centres;  // of the levels so far
  std::size_t columns = 0;
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t end = rows.width * (level + 1) / levels, width = end - columns;
    const std::vector<float> part = detail::columns_of(rows, columns, width);
    CAUSEWAY_ASSIGN(const std::vector<float> here,
                    k_means({part, width}, versions[level], {mix(options.seed, level), options.rounds}));
    centres = level == 0 ? here : detail::crossed({centres, columns}, {here, width});
    columns = end;
  }
  return centres;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_K_MEANS_IPP
