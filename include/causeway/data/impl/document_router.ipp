// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_DOCUMENT_ROUTER_IPP
#define CAUSEWAY_DATA_IMPL_DOCUMENT_ROUTER_IPP

#include <causeway/data/document_router.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

namespace detail {

/// Rows with mean 0 and variance 1 in each column, and a last column of ones; what was taken away and divided by.
struct standard_rows {
  std::size_t columns;
  std::vector<double> values;
  std::vector<double> mean, deviation;

  CAUSEWAY_DECL explicit standard_rows(const feature_rows& rows)
      : columns{rows.width + 1}, values(rows.size() * columns, 1.0), mean(rows.width), deviation(rows.width) {
    const auto count = static_cast<double>(rows.size());
    for (std::size_t j = 0; j < rows.width; ++j) {
      for (std::size_t i = 0; i < rows.size(); ++i) mean[j] += static_cast<double>(rows[i][j]) / count;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double d = static_cast<double>(rows[i][j]) - mean[j];
        deviation[j] += d * d / count;
      }
      deviation[j] = deviation[j] > 0 ? std::sqrt(deviation[j]) : 1.0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        values[i * columns + j] = (static_cast<double>(rows[i][j]) - mean[j]) / deviation[j];
      }
    }
  }

  [[nodiscard]] std::span<const double> operator[](std::size_t i) const {
    return std::span{values}.subspan(i * columns, columns);
  }
  [[nodiscard]] std::size_t size() const { return values.size() / columns; }
};

CAUSEWAY_DECL double dot(std::span<const double> a, std::span<const double> b) noexcept {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The largest eigenvalue of rowsᵀ·rows / n, nearly, by powers.
CAUSEWAY_DECL double largest_curvature(const standard_rows& rows) {
  std::vector<double> v(rows.columns, 1.0 / std::sqrt(static_cast<double>(rows.columns)));
  double largest = 0;
  for (int power = 0; power < 30; ++power) {
    std::vector<double> next(rows.columns, 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double along = dot(rows[i], v) / static_cast<double>(rows.size());
      for (std::size_t j = 0; j < next.size(); ++j) next[j] += along * rows[i][j];
    }
    largest = std::sqrt(dot(next, next));
    for (std::size_t j = 0; j < v.size(); ++j) v[j] = next[j] / largest;
  }
  return largest;
}

/// The scores become the probabilities that they stand for.
CAUSEWAY_DECL void softmax(std::span<double> scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - top);
  for (double& s : scores) s /= sum;
}

/// Of the mean cross-entropy + decay/2·|W|² at `weights`, [paths, columns]; the bias does not decay.
CAUSEWAY_DECL std::vector<double> router_gradient(const standard_rows& rows, std::span<const std::uint32_t> best,
                                                  std::span<const double> weights, double decay) {
  const std::size_t columns = rows.columns, paths = weights.size() / columns;
  std::vector<double> gradient(weights.begin(), weights.end());
  for (std::size_t at = 0; at < gradient.size(); ++at) gradient[at] *= at % columns + 1 == columns ? 0.0 : decay;
  std::vector<double> p(paths);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t k = 0; k < paths; ++k) p[k] = dot(weights.subspan(k * columns, columns), rows[i]);
    softmax(p);
    p[best[i]] -= 1;
    for (std::size_t k = 0; k < paths; ++k) {
      const double by = p[k] / static_cast<double>(rows.size());
      for (std::size_t j = 0; j < columns; ++j) gradient[k * columns + j] += by * rows[i][j];
    }
  }
  return gradient;
}

/// The minimum: steps of one over the largest curvature (that of softmax is half that of the rows at most, which makes up
/// for a power too few), from a point that looks ahead.
CAUSEWAY_DECL std::vector<double> fitted_router(const standard_rows& rows, std::span<const std::uint32_t> best,
                                                std::uint32_t paths, const router_training& options) {
  const double rate = 1 / (largest_curvature(rows) + options.decay);
  std::vector<double> weights(paths * rows.columns, 0.0), ahead = weights;
  double t = 1;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    const std::vector<double> gradient = router_gradient(rows, best, ahead, options.decay);
    const auto small = [&](double g) { return std::abs(g) <= options.tolerance; };
    if (std::all_of(gradient.begin(), gradient.end(), small)) return ahead;
    const double next_t = (1 + std::sqrt(1 + 4 * t * t)) / 2, momentum = (t - 1) / next_t;
    for (std::size_t at = 0; at < weights.size(); ++at) {
      const double now = ahead[at] - rate * gradient[at];
      ahead[at] = now + momentum * (now - weights[at]);
      weights[at] = now;
    }
    t = next_t;
  }
  return weights;
}

}  // namespace detail

CAUSEWAY_DECL document_router document_router::nearest(const feature_rows& centres) {
  document_router router;
  router.width_ = centres.width;
  for (std::size_t p = 0; p < centres.size(); ++p) {
    double squares = 0;
    for (const float c : centres[p]) {
      router.weights_.push_back(2 * static_cast<double>(c));
      squares += static_cast<double>(c) * static_cast<double>(c);
    }
    router.weights_.push_back(-squares);
  }
  return router;
}

CAUSEWAY_DECL result<document_router> document_router::trained(const feature_rows& rows,
                                                               std::span<const std::uint32_t> best, std::uint32_t paths,
                                                               const router_training& options) {
  const auto named = [&](std::uint32_t p) { return p < paths; };
  if (rows.size() == 0 || best.size() != rows.size() || !std::all_of(best.begin(), best.end(), named)) {
    return fail(errc::invalid_argument, "document_router",
                std::to_string(best.size()) + " paths for " + std::to_string(rows.size()) +
                    " rows; give each row one below " + std::to_string(paths));
  }
  const detail::standard_rows standard{rows};
  document_router router;
  router.width_ = rows.width;
  router.weights_ = detail::fitted_router(standard, best, paths, options);
  for (std::size_t p = 0; p < paths; ++p) {  // back to features as they are
    const auto row = std::span{router.weights_}.subspan(p * standard.columns, standard.columns);
    for (std::size_t j = 0; j < rows.width; ++j) {
      row[j] /= standard.deviation[j];
      row[rows.width] -= row[j] * standard.mean[j];
    }
  }
  return router;
}

CAUSEWAY_DECL void document_router::scores(std::span<const float> features, std::span<float> out) const {
  for (std::size_t p = 0; p < paths(); ++p) {
    const auto row = std::span{weights_}.subspan(p * (width_ + 1), width_ + 1);
    double sum = row[width_];
    for (std::size_t j = 0; j < width_; ++j) sum += row[j] * static_cast<double>(features[j]);
    out[p] = static_cast<float>(sum);
  }
}

CAUSEWAY_DECL std::uint32_t document_router::best(std::span<const float> features) const {
  std::vector<float> all(paths());
  scores(features, all);
  return static_cast<std::uint32_t>(std::max_element(all.begin(), all.end()) - all.begin());
}

namespace detail {

/// The paths of a document from the best on; of equal ones the first.
CAUSEWAY_DECL std::vector<std::uint32_t> ranked(std::span<const float> scores) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  return order;
}

/// Adds the documents that lack least of going to `path`.
CAUSEWAY_DECL void fill_shard(const feature_rows& scores, std::uint32_t path, std::size_t wanted,
                              std::vector<std::uint32_t>& shard) {
  std::vector<std::pair<float, std::uint32_t>> others;  // what they lack, number
  for (std::size_t d = 0; d < scores.size(); ++d) {
    const auto number = static_cast<std::uint32_t>(d);
    if (std::binary_search(shard.begin(), shard.end(), number)) continue;
    others.emplace_back(*std::max_element(scores[d].begin(), scores[d].end()) - scores[d][path], number);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t i = 0; shard.size() < wanted && i < others.size(); ++i) shard.push_back(others[i].second);
  std::sort(shard.begin(), shard.end());
}

}  // namespace detail

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> shards_of(const feature_rows& scores, const sharding& how) {
  const std::size_t paths = scores.width;
  std::vector<std::vector<std::uint32_t>> shards(paths);
  for (std::size_t d = 0; d < scores.size(); ++d) {
    const auto order = detail::ranked(scores[d]);
    for (std::size_t i = 0; i < std::min<std::size_t>(how.top, paths); ++i) {
      shards[order[i]].push_back(static_cast<std::uint32_t>(d));
    }
  }
  for (std::uint32_t p = 0; p < paths; ++p) {
    if (shards[p].size() < how.fewest) detail::fill_shard(scores, p, how.fewest, shards[p]);
  }
  return shards;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_DOCUMENT_ROUTER_IPP
