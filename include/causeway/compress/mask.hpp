// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_MASK_HPP
#define CAUSEWAY_COMPRESS_MASK_HPP

// Random coordinates that need not travel, because a seed says which they are: one that all peers have (shared_mask), or
// one in the message (random_k). Both take the first coordinates of a permutation that a seed makes of the row, in integer
// arithmetic alone, so all machines agree.

#include <causeway/compress/sparsifier.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Places [begin, end) of the permutation that `seed` makes of a row.
struct permuted_part {
  std::uint64_t seed = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

namespace detail {

/// A pseudo-random permutation of [0, n) that is evaluated where it is needed: an alternating Feistel network over the next
/// power of two, walked until it lands below n (Black and Rogaway, 2002). About two evaluations a value.
class seeded_permutation {
 public:
  seeded_permutation(std::uint64_t n, std::uint64_t seed) : n_{n} {
    const unsigned bits = std::max(4U, static_cast<unsigned>(std::bit_width(n - (n == 0 ? 0U : 1U))));
    low_bits_ = bits / 2;
    low_mask_ = (1U << low_bits_) - 1;
    high_mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << (bits - low_bits_)) - 1);
    for (std::uint32_t i = 0; i < keys_.size(); ++i) keys_[i] = static_cast<std::uint32_t>(mix(seed, n, i));
  }

  [[nodiscard]] CAUSEWAY_HD std::uint64_t operator()(std::uint64_t i) const noexcept {
    do i = network(i);
    while (i >= n_);
    return i;
  }

 private:
  /// Mixes all bits of x (the finalizer of MurmurHash3).
  CAUSEWAY_HD static std::uint32_t scrambled(std::uint32_t x) noexcept {
    x = (x ^ (x >> 16U)) * 0x85EBCA6BU;
    x = (x ^ (x >> 13U)) * 0xC2B2AE35U;
    return x ^ (x >> 16U);
  }

  [[nodiscard]] CAUSEWAY_HD std::uint64_t network(std::uint64_t i) const noexcept {
    auto low = static_cast<std::uint32_t>(i) & low_mask_;
    auto high = static_cast<std::uint32_t>(i >> low_bits_);
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      high ^= scrambled(low ^ keys_[round]) & high_mask_;
      low ^= scrambled(high ^ keys_[round + 1]) & low_mask_;
    }
    return (std::uint64_t{high} << low_bits_) | low;
  }

  std::uint64_t n_;
  unsigned low_bits_ = 0;
  std::uint32_t low_mask_ = 0;
  std::uint32_t high_mask_ = 0;
  std::array<std::uint32_t, 8> keys_{};
};

/// The coordinates at these places of the permutation of [0, n), ascending.
inline void list_permuted(thread_pool& pool, std::size_t n, const permuted_part& part, std::vector<std::uint32_t>& kept) {
  const seeded_permutation permutation{n, part.seed};
  coordinate_set chosen{n};
  const std::span<std::uint64_t> words = chosen.words();
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(part.end - part.begin), [&](index_range r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) {
      const std::uint64_t at = permutation(part.begin + static_cast<std::size_t>(i));
      std::atomic_ref{words[at / 64]}.fetch_or(std::uint64_t{1} << (at % 64), std::memory_order_relaxed);
    }
  });
  chosen.list(pool, kept);
}

/// share · n to the nearest, at least one value of a row that has any. Without an addition, which some compilers would
/// fuse.
inline std::size_t count_of_share(double share, std::size_t n) {
  const auto count = static_cast<std::size_t>(std::round(share * static_cast<double>(n)));
  return std::clamp<std::size_t>(count, n == 0 ? 0 : 1, n);
}

inline result<void> validate_share(double share, std::string_view codec) {
  if (share > 0 && share <= 1) return {};
  return fail(errc::invalid_argument, std::string{codec},
              "a share of " + std::to_string(share) + " of the values; take more than 0, up to 1");
}

}  // namespace detail

/// How the masks of successive rounds relate.
enum class mask_order : std::uint8_t {
  independent,  ///< each exchange draws anew (from its own seed): a value waits 1/share rounds on average, without limit
  sequential,   ///< one shuffle for the whole run, whose parts take turns: every value once in each 1/share rounds
  partitions,   ///< like sequential, but shuffled again after each such cycle
};

struct shared_mask_options {
  double share = 0.005;  ///< of the values; sequential and partitions use 1 / round(1 / share)
  mask_order order = mask_order::independent;
  std::uint64_t seed = 0;  ///< of sequential's and partitions' shuffles: equal on all peers, and for the whole run

  void serialize(auto& ar) { ar(share, order, seed); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const shared_mask_options& o) {
  if (o.order > mask_order::partitions) return fail(errc::invalid_argument, "shared_mask", "an unknown order of masks");
  return detail::validate_share(o.share, "shared_mask");
}

/// Sparsifier: an exact number of random coordinates, the same on all peers, whatever their values (SPARTA, Exo Labs 2025;
/// CocktailSGD's first step, Wang et al., 2023). Nothing travels but the values. Costs about 30 ns for each coordinate and
/// a bitmap of the row. `independent` draws from the context's seed; the others from the options' seed and the context's
/// round. A contraction in the mean: 1 - share of |x|² is lost, of one message perhaps all; the others send each value once
/// in each 1/share rounds.
class shared_mask {
 public:
  static constexpr std::string_view name = "shared_mask";
  static constexpr bool shared_support = true;
  static constexpr bool exact_count = true;

  shared_mask() : shared_mask{shared_mask_options{}} {}
  explicit shared_mask(const shared_mask_options& options) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const shared_mask_options& options() const noexcept { return options_; }

  /// Rounds after which every value has been sent, for sequential and partitions.
  [[nodiscard]] std::uint64_t cycle() const noexcept {
    return static_cast<std::uint64_t>(std::max(1.0, std::round(1.0 / options_.share)));
  }

  /// Which coordinates of a row of n values the exchange sends.
  [[nodiscard]] permuted_part part_of(const message_context& ctx, std::size_t n) const {
    if (options_.order == mask_order::independent) return {mix(ctx.seed, 1), 0, most_kept(ctx, n)};
    const std::uint64_t part = ctx.round % cycle();
    const std::uint64_t turn = options_.order == mask_order::partitions ? ctx.round / cycle() : 0;
    return {mix(options_.seed, 2, turn), part_begin(n, part), part_begin(n, part + 1)};
  }
  [[nodiscard]] std::size_t most_kept(const message_context& ctx, std::size_t n) const {
    if (options_.order == mask_order::independent) return detail::count_of_share(options_.share, n);
    return part_begin(n, ctx.round % cycle() + 1) - part_begin(n, ctx.round % cycle());
  }
  [[nodiscard]] static std::size_t most_bytes(const message_context&, std::size_t) noexcept { return 0; }

  std::size_t select(const message_context& ctx, std::span<const float> values, std::vector<std::uint32_t>& kept,
                     std::span<std::byte>) const {
    list(ctx, values.size(), kept);
    return 0;
  }
  result<std::size_t> read(const message_context& ctx, std::span<const std::byte>, std::size_t n,
                           std::vector<std::uint32_t>& kept) const {
    list(ctx, n, kept);
    return std::size_t{0};
  }

 private:
  [[nodiscard]] std::size_t part_begin(std::size_t n, std::uint64_t part) const noexcept {
    const std::uint64_t parts = cycle();  // part · n / parts without overflow
    return static_cast<std::size_t>(n / parts * part + n % parts * part / parts);
  }

  void list(const message_context& ctx, std::size_t n, std::vector<std::uint32_t>& kept) const {
    detail::expect_row_size(n);
    detail::list_permuted(ctx.pool, n, part_of(ctx, n), kept);
  }

  shared_mask_options options_;
};
static_assert(Sparsifier<shared_mask>);

struct random_k_options {
  double share = 0.01;  ///< of the values

  void serialize(auto& ar) { ar(share); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const random_k_options& o) { return detail::validate_share(o.share, "random_k"); }

/// Sparsifier: as many random coordinates, different on each peer. Eight bytes travel, the seed that they come from. The
/// values are sent as they are, not multiplied by 1/share: keep the residual, or use the mean over contributors. Contracts
/// in the mean, as shared_mask does.
class random_k {
 public:
  static constexpr std::string_view name = "random_k";
  static constexpr bool shared_support = false;
  static constexpr bool exact_count = true;

  random_k() : random_k{random_k_options{}} {}
  explicit random_k(const random_k_options& options) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const random_k_options& options() const noexcept { return options_; }

  /// The coordinates that a message's seed names in a row of n values.
  [[nodiscard]] permuted_part part_of(const message_context& ctx, std::uint64_t seed, std::size_t n) const {
    return {mix(seed, 3), 0, most_kept(ctx, n)};
  }
  [[nodiscard]] std::size_t most_kept(const message_context&, std::size_t n) const {
    return detail::count_of_share(options_.share, n);
  }
  [[nodiscard]] static std::size_t most_bytes(const message_context&, std::size_t) noexcept { return 8; }

  std::size_t select(const message_context& ctx, std::span<const float> values, std::vector<std::uint32_t>& kept,
                     std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(room.size() >= sizeof ctx.own_seed);
    std::memcpy(room.data(), &ctx.own_seed, sizeof ctx.own_seed);
    list(ctx, ctx.own_seed, values.size(), kept);
    return sizeof ctx.own_seed;
  }
  result<std::size_t> read(const message_context& ctx, std::span<const std::byte> bytes, std::size_t n,
                           std::vector<std::uint32_t>& kept) const {
    std::uint64_t seed = 0;
    if (bytes.size() < sizeof seed) return detail::missing_bytes(name, bytes.size(), sizeof seed);
    std::memcpy(&seed, bytes.data(), sizeof seed);
    list(ctx, seed, n, kept);
    return sizeof seed;
  }

 private:
  void list(const message_context& ctx, std::uint64_t seed, std::size_t n, std::vector<std::uint32_t>& kept) const {
    detail::expect_row_size(n);
    detail::list_permuted(ctx.pool, n, part_of(ctx, seed, n), kept);
  }

  random_k_options options_;
};
static_assert(Sparsifier<random_k>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_MASK_HPP
