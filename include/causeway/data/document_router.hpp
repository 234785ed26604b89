// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_DOCUMENT_ROUTER_HPP
#define CAUSEWAY_DATA_DOCUMENT_ROUTER_HPP

// Which path of a modular model a document is for, by features of its first tokens (DiPaCo: Douillard et al. 2024, section
// 2.4): the path whose cluster it is in, or, once there are paths that were trained, the one that a classifier expects to
// predict it best. Both are linear in the features, so one class does for them. And the shards of documents that follow.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/data/k_means.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

struct router_training {
  double decay = 0.01;         ///< λ of λ/2·|W|², W in units of a standard deviation of each feature
  std::uint32_t rounds = 500;  ///< at most
  double tolerance = 1e-7;     ///< ends when no entry of the gradient is larger
};

/// A score for each path: weights·features + bias. A regular value; made equally of equal numbers, in double.
class document_router {
 public:
  document_router() = default;

  /// The nearest of `centres`, [paths, width], scores best: -|z - c|² without |z|², which is the same for all paths.
  CAUSEWAY_DECL static document_router nearest(const feature_rows& centres);

  /// Logistic regression (softmax) of `best`, the path that predicts each row's document best: the minimum of the mean
  /// cross-entropy + decay/2·|W|² by accelerated gradient descent from 0 (Nesterov 1983). errc::invalid_argument where
  /// `best` names none of the paths, or there is not one for each row, or no row. Time: rounds·rows·paths·width.
  CAUSEWAY_DECL static result<document_router> trained(const feature_rows& rows, std::span<const std::uint32_t> best,
                                                       std::uint32_t paths, const router_training& options = {});

  [[nodiscard]] std::uint32_t paths() const noexcept { return static_cast<std::uint32_t>(weights_.size() / (width_ + 1)); }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }

  /// One for each path into `out`; only their order means anything.
  CAUSEWAY_DECL void scores(std::span<const float> features, std::span<float> out) const;
  /// The path with the highest score, the first of equal ones.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t best(std::span<const float> features) const;

  static constexpr std::uint32_t state_version = 1;
  void serialize(auto& ar) { ar(width_, weights_); }

  friend bool operator==(const document_router&, const document_router&) = default;

 private:
  std::uint64_t width_ = 0;
  std::vector<double> weights_;  // [paths, width + 1], the bias last
};

struct sharding {
  std::uint32_t top = 1;     ///< to how many paths a document goes: those with the highest scores
  std::uint32_t fewest = 1;  ///< documents of a shard, if there are as many: those with the highest scores are added
};

/// Of each path the numbers of its documents, rising, from `scores`, [documents, paths]. With `top` above 1 shards overlap.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> shards_of(const feature_rows& scores,
                                                                              const sharding& how = {});

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/document_router.ipp>
#endif

#endif  // CAUSEWAY_DATA_DOCUMENT_ROUTER_HPP
