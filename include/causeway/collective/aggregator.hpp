// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP
#define CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP

// What becomes of the messages of all peers, where one place has all of them (gather_mean). Every peer works it out for
// itself from the same bytes in the same order, and so ends with the same bits.

#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What an aggregator is given.
template <class C, class X>
struct aggregation {
  const C& codec;
  const X& context;
  std::span<const peer_message> messages;  ///< in the order of the peers; those with weight > 0 that are not refused
  double total_weight;                     ///< of the messages
  float factor;                            ///< 1 / total_weight, finite, not 0
  std::uint32_t peers;                     ///< of the group
  std::span<float> out;                    ///< zeros; becomes the result
  std::span<float> counts;                 ///< zeros, or empty
  std::span<float> scratch;                ///< scratch_rows times as many values as `out`; anything
};

/// Requirements:
/// - `a.combine(aggregation)` leaves the result in `out`, as values (not coefficients), all finite; or says who is to blame
///   that there is none.
/// - `A::scratch_rows`: rows of working memory it needs. `A::counts`: it fills `counts` where there are any.
/// - `A::drops_unusable`: a message that cannot be decoded counts for nothing; without it, nobody uses the round's result.
/// - `A::changes_one`: see exchange_traits.
template <class A, class C, class X>
concept Aggregator = Copyable<A> && requires(const A& a, const aggregation<C, X>& all) {
  { A::name } -> ConvertibleTo<std::string_view>;
  { A::scratch_rows } -> ConvertibleTo<std::size_t>;
  {bool{A::counts}};
  {bool{A::drops_unusable}};
  {bool{A::changes_one}};
  { a.combine(all) } -> std::same_as<std::optional<refusal>>;
};

namespace detail {

/// out += Σ weight · decoded, in the order of the peers.
template <class C, class X>
std::optional<refusal> add_messages(const aggregation<C, X>& all, std::span<float> counts) {
  for (const peer_message& m : all.messages) {
    const auto added = all.codec.decode_add(all.context, m.bytes, all.out, m.weight, counts);
    if (added) continue;
    const errc code = added.error().code;
    const bool by_sender = code == errc::protocol || code == errc::corrupt || code == errc::non_finite;
    return refusal{by_sender ? m.peer : all.peers, code};
  }
  return std::nullopt;
}

/// Multiplies by `factor`; false when something is not finite.
CAUSEWAY_DECL bool scale_finite(thread_pool& pool, std::span<float> values, float factor);

/// out = weight · values, and zeros for a weight of 0, whatever the values; false when something is not finite.
CAUSEWAY_DECL bool weighted(thread_pool& pool, std::span<const float> values, float weight, std::span<float> out);

void for_values(thread_pool& pool, std::size_t count, auto&& f) {
  pool.for_range(static_cast<std::int64_t>(count), 1 << 14, [&](index_range r) {
    for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) f(i);
  });
}

/// out = factor · out, or of out / counts where there are counts above 0: the means of sums.
template <class C, class X>
std::optional<refusal> divide(const aggregation<C, X>& all, std::span<const float> counts, float factor) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(all.codec, all.out, counts)) {
      const auto done = row_codec(all.codec).divide(all.out, counts, factor);
      return done ? std::nullopt : std::optional{refusal{all.peers, done.error().code}};
    }
  }
  thread_pool& pool = all.context.pool;
  if (!counts.empty()) {
    for_values(pool, all.out.size(), [&](std::size_t i) {
      if (counts[i] > 0) all.out[i] /= counts[i];
    });
  }
  if (!scale_finite(pool, all.out, factor)) return refusal{all.peers, errc::non_finite};
  return std::nullopt;
}

template <class C, class X>
void to_signs(const aggregation<C, X>& all) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(all.codec, all.out)) return row_codec(all.codec).to_signs(all.out);
  }
  for_values(all.context.pool, all.out.size(), [&](std::size_t i) {
    const float x = all.out[i];
    all.out[i] = x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F;
  });
}

}  // namespace detail

/// Σ w_i x_i / Σ w_i. Where a sparse message leaves a coordinate out, it says 0.
struct mean {
  static constexpr std::string_view name = "mean";
  static constexpr std::size_t scratch_rows = 0;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (auto bad = detail::add_messages(all, all.counts)) return bad;
    if (auto bad = detail::divide(all, {}, all.factor)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }
};

/// The mean times the number of messages: Σ x_i where weights are equal. For updates that all peers apply (Gaia).
struct sum : mean {
  static constexpr std::string_view name = "sum";

  template <class C, class X>
  std::optional<refusal> combine(aggregation<C, X> all) const {
    all.factor *= static_cast<float>(all.messages.size());
    return mean::combine(all);
  }
};

/// Each coordinate divided by the weights of those who sent it: Σ w_i x_i / Σ (w_i of the messages that have it); 0 where
/// nobody has it. The mean of DeMo's reference implementation. For a dense codec it is `mean`, but for rounding.
struct contributor_mean {
  static constexpr std::string_view name = "contributor_mean";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  bool over_all = false;  ///< it is `mean` after all: for presets that have both

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (over_all) return mean{}.combine(all);
    std::span<float> counts_here = all.counts;
    if (counts_here.empty()) {
      counts_here = all.scratch;
      detail::clear(all.codec, all.context.pool, counts_here);
    }
    if (auto bad = detail::add_messages(all, counts_here)) return bad;
    if (auto bad = detail::divide(all, counts_here, 1.0F)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }
};

namespace detail {

/// An aggregator that does something more to what `Base` gives.
template <class Base>
struct after {
  static constexpr std::size_t scratch_rows = Base::scratch_rows;
  static constexpr bool counts = Base::counts;
  static constexpr bool drops_unusable = Base::drops_unusable;
  static constexpr bool changes_one = Base::changes_one;

  [[no_unique_address]] Base base{};
};

}  // namespace detail

/// The sign of what `Base` gives: -1, 0 or 1. With `contributor_mean` the aggregation of DeMo; with 1-bit messages the
/// majority vote of signSGD (Bernstein et al. 2018).
template <class Base = mean>
struct sign_of : detail::after<Base> {
  static constexpr std::string_view name = "sign_of";
  static constexpr bool changes_one = true;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (auto bad = this->base.combine(all)) return bad;
    detail::to_signs(all);
    return std::nullopt;
  }
};
using sign_of_mean = sign_of<mean>;

/// What `Base` gives, encoded once more and decoded: the values that peers would have if each had reduced a part and sent
/// it on with the same codec (MuLoCo's authors quantise again after the reduce). For codecs whose messages have all values.
/// What the second encoding loses, no error feedback has. Memory: a message.
template <class Base = mean>
struct recoded : detail::after<Base> {
  static constexpr std::string_view name = "recoded";

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    static_assert(!C::traits.sparse && !C::traits.transform, "recoded: a message that leaves values out would lose them");
    if (auto bad = this->base.combine(all)) return bad;
    std::vector<std::byte> bytes(all.codec.most_bytes(all.context, all.out.size()));
    bytes.resize(all.codec.encode(all.context, all.out, bytes));
    detail::clear(all.codec, all.context.pool, all.out);
    const auto added = all.codec.decode_add(all.context, bytes, all.out, 1.0F, {});
    return added ? std::nullopt : std::optional{refusal{all.peers, added.error().code}};
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/aggregator.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP
