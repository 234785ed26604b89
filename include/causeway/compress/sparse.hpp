// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SPARSE_HPP
#define CAUSEWAY_COMPRESS_SPARSE_HPP

// A message made of three choices: in which basis, which coefficients, with how many bits each. On the wire: what the
// sparsifier writes to find the coordinates, then the chosen values, one after another, as the quantiser encodes them.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

namespace detail {

/// "sparse<a,b,c>" as characters that live as long as the program.
template <class T, class S, class Q>
struct sparse_name {
  static constexpr std::string_view parts[] = {"sparse<", T::name, ",", S::name, ",", Q::name, ">"};
  static constexpr std::size_t length() {
    std::size_t sum = 0;
    for (const std::string_view part : parts) sum += part.size();
    return sum;
  }
  static constexpr auto characters = [] {
    std::array<char, length()> all{};
    auto* to = all.data();
    for (const std::string_view part : parts) to = std::copy(part.begin(), part.end(), to);
    return all;
  }();
  static constexpr std::string_view value{characters.data(), characters.size()};
};

}  // namespace detail

/// Message codec: the values that `Choice` selects of `Basis`' coefficients, encoded by `Quantiser` (a Codec, of which the
/// values of one message are one row; those of each tensor, where its traits say per_tensor). DeMo is sparse<dct_tiles,
/// top_k, none>, SparseLoCo sparse<no_transform, top_k, codebook<2>>, SPARTA sparse<no_transform, shared_mask, none>,
/// CocktailSGD sparse<no_transform, stacked<shared_mask, top_k>, bits<4>>. Memory while it works: eight bytes a chosen
/// value, and four bytes a value of the row for a transform.
template <Transform Basis, Sparsifier Choice, Codec Quantiser>
class sparse {
 public:
  static constexpr std::string_view name = detail::sparse_name<Basis, Choice, Quantiser>::value;
  static constexpr codec_traits traits{.lossy = true,
                                       .per_block = codec_traits{Quantiser::traits}.per_block,
                                       .sparse = true,
                                       .shared_support = Choice::shared_support,
                                       .transform = !Basis::identity};

  sparse() : sparse{Basis{}} {}
  explicit sparse(Basis basis, Choice choice = Choice{}, Quantiser quantiser = Quantiser{})
      : basis_{std::move(basis)}, choice_{std::move(choice)}, quantiser_{std::move(quantiser)} {}

  [[nodiscard]] const Basis& basis() const noexcept { return basis_; }
  [[nodiscard]] const Choice& choice() const noexcept { return choice_; }
  [[nodiscard]] const Quantiser& quantiser() const noexcept { return quantiser_; }

  [[nodiscard]] std::size_t most_bytes(const message_context& ctx, std::size_t n) const {
    // However the chosen values are shared out among the tensors.
    const std::size_t more = each_tensor ? 2 * ctx.matrices.size() * quantiser_.encoded_size(1) : 0;
    return choice_.most_bytes(ctx, n) + quantiser_.encoded_size(choice_.most_kept(ctx, n)) + more;
  }

  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(room.size() >= most_bytes(ctx, values.size()));
    if constexpr (Basis::identity) {
      return encode_coefficients(ctx, values, room);
    } else {
      std::vector<float> coefficients(values.size());
      basis_.forward(ctx, values, coefficients);
      return encode_coefficients(ctx, coefficients, room);
    }
  }

  /// As well, residual = values − what was chosen of them, as it is: see codec_traits::chosen_is_sent.
  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room,
                     std::span<float> residual) const requires(codec_traits{Quantiser::traits}.chosen_is_sent) {
    const std::size_t used = encode(ctx, values, room);
    std::vector<std::uint32_t> kept;
    [[maybe_unused]] const auto read = choice_.read(ctx, room.first(used), values.size(), kept);
    CAUSEWAY_EXPECT(read);  // it is our own
    std::vector<float> coefficients(values.begin(), values.end()), chosen(kept.size());
    if constexpr (!Basis::identity) {
      std::fill(coefficients.begin(), coefficients.end(), 0.0F);
      basis_.forward(ctx, values, coefficients);
    }
    detail::gather_values(ctx.pool, coefficients, kept, chosen);
    std::fill(residual.begin(), residual.end(), 0.0F);
    add(ctx.pool, kept, chosen, residual);
    if constexpr (!Basis::identity) basis_.inverse(ctx, residual);
    kernels::scale(ctx.pool, residual.data(), -1.0F, static_cast<std::int64_t>(residual.size()));
    kernels::add(ctx.pool, residual.data(), residual.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return used;
  }

  result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          std::span<float> counts) const {
    CAUSEWAY_EXPECT(counts.empty() || counts.size() == sum.size());
    std::vector<std::uint32_t> kept;
    CAUSEWAY_ASSIGN(const std::size_t used, choice_.read(ctx, bytes, sum.size(), kept));
    bytes = bytes.subspan(used);
    std::size_t expected = 0;
    for_rows(ctx, kept, [&](std::size_t, std::size_t count) { expected += quantiser_.encoded_size(count); });
    if (bytes.size() != expected) return detail::wrong_length(name, bytes.size() + used, expected + used);
    std::vector<float> chosen(kept.size());
    result<void> outcome;
    for_rows(ctx, kept, [&](std::size_t first, std::size_t count) {
      const std::size_t size = quantiser_.encoded_size(count);
      if (outcome) outcome = quantiser_.decode(ctx.pool, bytes.first(size), std::span{chosen}.subspan(first, count));
      bytes = bytes.subspan(size);
    });
    CAUSEWAY_TRY(outcome);
    kernels::scale(ctx.pool, chosen.data(), weight, static_cast<std::int64_t>(chosen.size()));
    add(ctx.pool, kept, chosen, sum);
    if (!counts.empty()) {
      std::fill(chosen.begin(), chosen.end(), weight);
      add(ctx.pool, kept, chosen, counts);
    }
    return {};
  }

  /// Coefficients to values, in place, after all messages were added.
  void inverse(const message_context& ctx, std::span<float> row) const requires(!Basis::identity) {
    basis_.inverse(ctx, row);
  }

 private:
  static constexpr bool each_tensor = codec_traits{Quantiser::traits}.per_tensor;

  std::size_t encode_coefficients(const message_context& ctx, std::span<const float> row, std::span<std::byte> room) const {
    std::vector<std::uint32_t> kept;
    std::size_t used = choice_.select(ctx, row, kept, room);
    std::vector<float> chosen(kept.size());
    detail::gather_values(ctx.pool, row, kept, chosen);
    for_rows(ctx, kept, [&](std::size_t first, std::size_t count) {
      used += quantiser_.encode(ctx.pool, std::span{chosen}.subspan(first, count), room.subspan(used));
    });
    return used;
  }

  /// Calls f(first, count) for the chosen values that are one row for the quantiser: all of them, or those of each tensor
  /// and of what lies between two. Sparsifiers choose from one tensor after another.
  static void for_rows(const message_context& ctx, std::span<const std::uint32_t> kept, auto&& f) {
    std::size_t first = 0;
    const auto up_to = [&](std::size_t end) {
      const std::size_t begin = first;
      while (first < kept.size() && kept[first] < end) ++first;
      if (first > begin) f(begin, first - begin);
    };
    for (const matrix_range& m : each_tensor ? ctx.matrices : std::span<const matrix_range>{}) {
      up_to(m.offset);
      up_to(m.offset + m.rows * m.columns);
    }
    if (first < kept.size() || !each_tensor) f(first, kept.size() - first);
  }

  /// No two coordinates are equal, so threads never add to the same place.
  static void add(thread_pool& pool, std::span<const std::uint32_t> kept, std::span<const float> chosen,
                  std::span<float> sum) {
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(kept.size()), [&](index_range r) {
      for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) sum[kept[i]] += chosen[i];
    });
  }

  Basis basis_;
  Choice choice_;
  Quantiser quantiser_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_SPARSE_HPP
