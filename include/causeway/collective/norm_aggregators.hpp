// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP
#define CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP

// Aggregators that look at every peer's contribution tensor by tensor, by its norm. They decode one message at a time, so
// that memory does not grow with the number of peers. What the context calls a matrix is a tensor, and so is what lies
// between two of them.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

struct tensor_piece {
  std::size_t offset = 0;
  std::size_t size = 0;
  bool embedding = false;

  [[nodiscard]] std::span<float> of(std::span<float> row) const { return row.subspan(offset, size); }
};

/// All values of a row of `n`, as the matrices of the context and what lies between them.
std::vector<tensor_piece> tensors_of(const MessageContext auto& ctx, std::size_t n) {
  std::vector<tensor_piece> all;
  std::size_t at = 0;
  for (const auto& m : ctx.matrices) {
    const std::size_t size = m.rows * m.columns;
    CAUSEWAY_EXPECT(m.offset >= at && m.offset + size <= n);
    if (size == 0) continue;
    if (m.offset > at) all.push_back({at, m.offset - at});
    all.push_back({m.offset, size, m.kind == parameter_kind::embedding});
    at = m.offset + size;
  }
  if (at < n) all.push_back({at, n - at});
  return all;
}

CAUSEWAY_DECL void add_scaled(thread_pool& pool, std::span<float> sum, double factor, std::span<const float> x);

inline constexpr double no_norm = -1;  ///< of a tensor that does not count

/// Of each of the `tensors` tensors the median over messages, of two in the middle the lower one: norms[i * tensors + t] is
/// that of tensor t in message i. 0 where no message counts.
CAUSEWAY_DECL std::vector<double> median_norms(const std::vector<double>& norms, std::size_t tensors);

/// row = weight · what a message says, as the codec has it; adds the weight to the counts of what it has.
template <class C, class X>
std::optional<refusal> decode_weighted(const aggregation<C, X>& all, const peer_message& m, float weight,
                                       std::span<float> row, std::span<float> counts) {
  kernels::zero(all.context.pool, row.data(), static_cast<std::int64_t>(row.size()));
  const auto added = all.codec.decode_add(all.context, m.bytes, row, weight, counts);
  if (!added) return refusal{m.peer, added.error().code};
  return std::nullopt;
}

/// row = what a message says, as values.
template <class C, class X>
std::optional<refusal> decode_one(const aggregation<C, X>& all, const peer_message& m, std::span<float> row) {
  if (auto bad = decode_weighted(all, m, 1.0F, row, {})) return bad;
  invert(all.codec, all.context, row);
  return std::nullopt;
}

}  // namespace detail

/// Norms and directions are averaged apart (Decoupled DiLoCo): with x_i the contribution of peer i to a tensor,
///   r = Σ w_i |x_i| / Σ w_i,   u = Σ w_i x_i / |x_i|,   result = r · u / |u|.
/// Contributions that point different ways shrink their mean; here the result keeps their size. A tensor that is 0 counts
/// in r alone; where the directions cancel, the result is 0. Embeddings are averaged as they are: what peers with other
/// tokens do to a table has not the right angles that this is for. Cost: one decode, one norm and one addition a message.
/// Scratch: one row.
struct radial_directional {
  static constexpr std::string_view name = "radial_directional";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = false;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    thread_pool& pool = all.context.pool;
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, all.out.size());
    std::vector<double> radius(tensors.size());
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_one(all, m, all.scratch)) return bad;
      for (std::size_t t = 0; t < tensors.size(); ++t) radius[t] += add_direction(pool, tensors[t], m.weight, all);
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::span<float> sum = tensors[t].of(all.out);
      double factor = 1 / all.total_weight;
      if (!tensors[t].embedding) {
        const double length = kernels::euclidean_norm(pool, sum);
        factor = length > 0 ? radius[t] / all.total_weight / length : 0;
      }
      if (!detail::scale_finite(pool, sum, static_cast<float>(factor))) return refusal{all.peers, errc::non_finite};
    }
    return std::nullopt;
  }

 private:
  /// Adds the message in scratch to the sum of directions; gives what it adds to the sum of norms.
  template <class C, class X>
  double add_direction(thread_pool& pool, const detail::tensor_piece& t, double weight,
                       const aggregation<C, X>& all) const {
    const std::span<float> x = t.of(all.scratch);
    if (t.embedding) {
      detail::add_scaled(pool, t.of(all.out), weight, x);
      return 0;
    }
    const double norm = kernels::euclidean_norm(pool, x);
    const double factor = weight / norm;
    if (norm > 0 && factor <= double{std::numeric_limits<float>::max()}) detail::add_scaled(pool, t.of(all.out), factor, x);
    return weight * norm;
  }
};

/// No peer pulls harder than the one in the middle (the rule of Templar's aggregation server): each peer's contribution to
/// a tensor is scaled down to the median of the peers' norms of that tensor where it is larger. A tensor with a value
/// beyond `largest`, and a message that cannot be decoded, count for nothing: their weights are not divided by. The median
/// of an even number is the lower one of the two in the middle. Cost: two decodes and one norm a message. Scratch: one row.
struct median_norm_clip {
  static constexpr std::string_view name = "median_norm_clip";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = false;
  static constexpr bool drops_unusable = true;
  static constexpr bool changes_one = false;

  float largest = 1000.0F;  ///< of a value, positive

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    thread_pool& pool = all.context.pool;
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, all.out.size());
    const std::vector<double> norms = norms_of(all, tensors);
    const std::vector<double> limits = detail::median_norms(norms, tensors.size());
    std::vector<double> weights(tensors.size());
    for (std::size_t i = 0; i < all.messages.size(); ++i) {
      const std::span<const double> own{norms.data() + i * tensors.size(), tensors.size()};
      if (std::all_of(own.begin(), own.end(), is_dropped)) continue;
      (void)detail::decode_one(all, all.messages[i], all.scratch);  // it did the first time
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (is_dropped(own[t])) continue;
        const double factor = own[t] > limits[t] ? limits[t] / own[t] : 1.0;
        detail::add_scaled(pool, tensors[t].of(all.out), all.messages[i].weight * factor, tensors[t].of(all.scratch));
        weights[t] += all.messages[i].weight;
      }
    }
    return divide(pool, all, tensors, weights);
  }

 private:
  static constexpr double dropped = detail::no_norm;
  static bool is_dropped(double norm) { return norm < 0; }

  /// The norm of tensor t in message i at [i * tensors + t]; `dropped` for one that does not count.
  template <class C, class X>
  std::vector<double> norms_of(const aggregation<C, X>& all, const std::vector<detail::tensor_piece>& tensors) const {
    thread_pool& pool = all.context.pool;
    std::vector<double> norms;
    for (const peer_message& m : all.messages) {
      const bool decoded = !detail::decode_one(all, m, all.scratch);
      for (const detail::tensor_piece& t : tensors) {
        const std::span<const float> x = t.of(all.scratch);
        const double norm = decoded ? kernels::euclidean_norm(pool, x) : dropped;
        // No value can be larger than the norm: few tensors are looked at twice.
        norms.push_back(norm <= double{largest} || is_within(x) ? norm : dropped);
      }
    }
    return norms;
  }

  CAUSEWAY_DECL [[nodiscard]] bool is_within(std::span<const float> x) const;

  /// A tensor that nobody contributed to stays 0; when that is all of them, there is no result.
  template <class C, class X>
  static std::optional<refusal> divide(thread_pool& pool, const aggregation<C, X>& all,
                                       const std::vector<detail::tensor_piece>& tensors,
                                       const std::vector<double>& weights) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const float factor = detail::mean_factor(weights[t]);
      if (!detail::scale_finite(pool, tensors[t].of(all.out), factor)) return refusal{all.peers, errc::non_finite};
    }
    const bool any = std::any_of(weights.begin(), weights.end(), [](double w) { return w > 0; });
    return any || tensors.empty() ? std::nullopt : std::optional{refusal{all.peers, errc::invalid_argument}};
  }
};

/// contributor_mean of messages of which each tensor is scaled down to the median of the peers' norms of it, where it is
/// longer (what Templar does before SparseLoCo's outer step). For presets that have both, without `clips` it is
/// contributor_mean. Coefficients of a transform are taken for values: ours keep lengths. Cost: two decodes and one norm a
/// message. Scratch: two rows. errc::unsupported: clipping of rows that lie on a device.
struct clipped_contributor_mean {
  static constexpr std::string_view name = "clipped_contributor_mean";
  static constexpr std::size_t scratch_rows = 2;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  bool over_all = false;  ///< divided by the weights of all
  bool clips = false;

  template <class C, class X>
  std::optional<refusal> combine(aggregation<C, X> all) const {
    const std::size_t n = all.out.size();
    const std::span<float> row = all.scratch.last(n);
    all.scratch = all.scratch.first(n);
    if (!clips) return contributor_mean{over_all}.combine(all);
    if (detail::is_kept(all.codec, all.out)) return refusal{all.peers, errc::unsupported};
    const std::span<float> counted = all.counts.empty() ? all.scratch : all.counts;
    kernels::zero(all.context.pool, counted.data(), static_cast<std::int64_t>(n));
    if (auto bad = add_clipped(all, row, counted)) return bad;
    if (auto bad = detail::divide(all, over_all ? std::span<float>{} : counted, over_all ? all.factor : 1.0F)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }

 private:
  template <class C, class X>
  static std::optional<refusal> add_clipped(const aggregation<C, X>& all, std::span<float> row, std::span<float> counted) {
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, row.size());
    std::vector<double> norms;
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_weighted(all, m, 1.0F, row, {})) return bad;
      for (const detail::tensor_piece& t : tensors) norms.push_back(kernels::euclidean_norm(all.context.pool, t.of(row)));
    }
    const std::vector<double> limits = detail::median_norms(norms, tensors.size());
    auto own = norms.begin();
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_weighted(all, m, m.weight, row, counted)) return bad;
      for (std::size_t t = 0; t < tensors.size(); ++t, ++own) {
        const double factor = *own > limits[t] ? limits[t] / *own : 1.0;
        detail::add_scaled(all.context.pool, tensors[t].of(all.out), factor, tensors[t].of(row));
      }
    }
    return std::nullopt;
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/norm_aggregators.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP
