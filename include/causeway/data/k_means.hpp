// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_K_MEANS_HPP
#define CAUSEWAY_DATA_K_MEANS_HPP

// Clusters of feature rows by k-means (Lloyd 1982), with first centres that lie apart (k-means++: Arthur and Vassilvitskii
// 2007), and products of such clusters (Jégou et al. 2011). All sums are in double and in the order of the rows: equal rows
// and an equal seed give equal bits.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Rows of `width` numbers, one after the other. `width` must be positive.
struct feature_rows {
  std::span<const float> values;
  std::size_t width = 1;

  [[nodiscard]] std::size_t size() const noexcept { return values.size() / width; }
  [[nodiscard]] std::span<const float> operator[](std::size_t i) const noexcept { return values.subspan(i * width, width); }
};

struct k_means_options {
  std::uint64_t seed = 1;     ///< of the first centres
  std::uint32_t rounds = 50;  ///< at most; it ends as soon as no row changes its cluster
};

/// k rows of `rows` as first centres, [k, width]: the first is drawn evenly, each other with a probability proportional to
/// its squared distance from the nearest that was drawn before. `rows` must have at least one.
CAUSEWAY_DECL [[nodiscard]] std::vector<float> spread_centres(const feature_rows& rows, std::uint32_t k,
                                                              std::uint64_t seed);

/// Moves `centres`, [k, width], until each is the mean of the rows that it is nearest to (of equal ones the first); a
/// centre that no row is nearest to takes the row that is farthest from its own. Time: rounds·rows·k·width.
CAUSEWAY_DECL [[nodiscard]] std::vector<float> moved_centres(const feature_rows& rows, std::vector<float> centres,
                                                             std::uint32_t rounds);

/// k centres of the rows, [k, width]. errc::invalid_argument where k is 0 or there are fewer rows.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<float>> k_means(const feature_rows& rows, std::uint32_t k,
                                                               const k_means_options& options = {});

/// The rows' columns are cut into as many parts as there are levels, which differ by one column at most, and each part is
/// clustered for itself: versions[0]·versions[1]·… centres, [that many, width], the cluster of the last level changing
/// first, as axis::every_path numbers paths. With one level it is k_means. errc::invalid_argument as there, and where there
/// are more levels than columns, or none.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<float>> product_k_means(const feature_rows& rows,
                                                                       std::span<const std::uint32_t> versions,
                                                                       const k_means_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/k_means.ipp>
#endif

#endif  // CAUSEWAY_DATA_K_MEANS_HPP
