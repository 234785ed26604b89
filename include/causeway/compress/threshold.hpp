// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_THRESHOLD_HPP
#define CAUSEWAY_COMPRESS_THRESHOLD_HPP

// Sparsifiers that send whatever is large enough, so that a message's length follows the values: an absolute or relative
// threshold, and Gaia's significance. On the wire: the number of coordinates (4 bytes), then the coordinates as the
// smallest of packed indices, bitmask and Elias-Fano.

#include <causeway/compress/bit_stream.hpp>
#include <causeway/compress/index_set.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/kernels/simd_math.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

namespace detail {

using set_count = std::uint32_t;

inline index_layout set_layout(std::size_t count, std::size_t n) {
  return layout_of(index_form::smallest, static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(n));
}

inline std::size_t write_set(std::span<const std::uint32_t> kept, std::size_t n, std::span<std::byte> room) {
  const auto count = static_cast<set_count>(kept.size());
  const index_layout layout = set_layout(count, n);
  CAUSEWAY_EXPECT(room.size() >= sizeof count + bytes_of_bits(layout.bits));
  std::memcpy(room.data(), &count, sizeof count);
  bit_writer out{room.subspan(sizeof count)};
  write_indices(out, layout, kept);
  out.finish();
  return sizeof count + bytes_of_bits(layout.bits);
}

inline result<std::size_t> read_set(std::string_view codec, std::span<const std::byte> bytes, std::size_t n,
                                    std::vector<std::uint32_t>& kept) {
  set_count count = 0;
  if (bytes.size() < sizeof count) return missing_bytes(codec, bytes.size(), sizeof count);
  std::memcpy(&count, bytes.data(), sizeof count);
  if (count > n) return bad_indices(codec);
  const index_layout layout = set_layout(count, n);
  const std::size_t used = sizeof count + bytes_of_bits(layout.bits);
  if (bytes.size() < used) return missing_bytes(codec, bytes.size(), used);  // before memory for the indices is taken
  kept.resize(count);
  const bit_reader in{bytes.subspan(sizeof count, used - sizeof count)};
  if (!read_indices(in, 0, layout, kept) || !in.zero_from(layout.bits)) return bad_indices(codec);
  return used;
}

/// What sparsifiers S whose messages begin with such a set have in common.
template <class S>
struct sends_a_set {
  static constexpr bool shared_support = false;
  static constexpr bool exact_count = false;

  [[nodiscard]] static std::size_t most_kept(const message_context&, std::size_t n) noexcept { return n; }
  /// No set is longer than a bitmask, which `smallest` may always choose.
  [[nodiscard]] static std::size_t most_bytes(const message_context&, std::size_t n) {
    return sizeof(set_count) + bytes_of_bits(n);
  }
  static result<std::size_t> read(const message_context&, std::span<const std::byte> bytes, std::size_t n,
                                  std::vector<std::uint32_t>& kept) {
    expect_row_size(n);
    return read_set(S::name, bytes, n, kept);
  }
};

struct sum_squares {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    return sum_values(
        x, count,
        [](kernels::detail::f32x8& v) CAUSEWAY_INLINE_LAMBDA {
          CAUSEWAY_EXACT_BODY
          v *= v;
        },
        [](float v) CAUSEWAY_INLINE_LAMBDA {
          CAUSEWAY_EXACT_BODY
          return v * v;
        });
  }
};

/// Root mean square, summed in blocks of 4096 whatever the number of threads; NaN counts as nothing special.
inline float rms_of(thread_pool& pool, std::span<const float> values, kernels::simd_level level) {
  constexpr std::int64_t block = 4096;
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<float> sums(static_cast<std::size_t>((n + block - 1) / block));
  pool.for_range(n, block, [&](index_range r) {
    for (std::int64_t i = r.begin; i < r.end; i += block) {
      sums[static_cast<std::size_t>(i / block)] =
          kernels::detail::dispatch<sum_squares>(level, values.data() + i, std::min(block, r.end - i));
    }
  });
  double total = 0;
  for (const float sum : sums) total += static_cast<double>(sum);
  return n == 0 ? 0.0F : static_cast<float>(std::sqrt(total / static_cast<double>(n)));
}

/// Largest finite magnitude.
inline float largest_of(thread_pool& pool, std::span<const float> values) {
  std::vector<std::uint32_t> most(pool.size());
  pool.run([&](unsigned index) {
    const index_range r = share_of(static_cast<std::int64_t>(values.size()), index, pool.size(), 64);
    std::uint32_t largest = 0;
    for (std::int64_t i = r.begin; i < r.end; ++i) {
      const std::uint32_t bits = magnitude_bits(values[static_cast<std::size_t>(i)]);
      largest = bits > largest && bits < 0x7F800000U ? bits : largest;
    }
    most[index] = largest;
  });
  return std::bit_cast<float>(*std::max_element(most.begin(), most.end()));
}

}  // namespace detail

/// What a threshold is a multiple of.
enum class threshold_unit : std::uint8_t { absolute, largest, rms };

struct threshold_options {
  float least = 1.0F;
  threshold_unit unit = threshold_unit::rms;  ///< least · 1, · the row's largest magnitude, or · its root mean square

  void serialize(auto& ar) { ar(least, unit); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const threshold_options& o) {
  const bool finite = o.least > 0 && o.least <= std::numeric_limits<float>::max();
  if (finite && o.unit <= threshold_unit::rms) return {};
  return fail(errc::invalid_argument, "threshold",
              "a least magnitude of " + std::to_string(o.least) + "; take one above 0");
}

/// Sparsifier: the values of at least a certain magnitude, and all that are not finite (decoding refuses them). Nothing of
/// a row of zeros.
///
/// A contraction below 1: with rms less than least² of |x|² is lost; with largest at most m / (1 + m), m = (n - 1) ·
/// least². From 1 on (rms: above 1) a row of equal magnitudes may not be sent at all, and what is left grows until it
/// differs. An absolute one is no contraction, but no value that is left reaches it.
class threshold : public detail::sends_a_set<threshold> {
 public:
  static constexpr std::string_view name = "threshold";

  threshold() : threshold{threshold_options{}} {}
  explicit threshold(const threshold_options& options) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const threshold_options& options() const noexcept { return options_; }

  std::size_t select(const message_context& ctx, std::span<const float> values, std::vector<std::uint32_t>& kept,
                     std::span<std::byte> room, kernels::simd_level level = kernels::detect_simd_level()) const {
    detail::expect_row_size(values.size());
    float least = options_.least;
    if (options_.unit == threshold_unit::largest) least *= detail::largest_of(ctx.pool, values);
    if (options_.unit == threshold_unit::rms) least *= detail::rms_of(ctx.pool, values, level);
    // At least one unit in the last place, so that zeros are not sent; not finite only where values are not.
    const std::uint32_t bits = std::clamp(detail::magnitude_bits(least), 1U, 0x7F800000U);
    detail::coordinate_set large{values.size()};
    large.fill(ctx.pool, [&](std::size_t i) { return detail::magnitude_bits(values[i]) >= bits; });
    large.list(ctx.pool, kept);
    return detail::write_set(kept, values.size(), room);
  }

 private:
  threshold_options options_;
};
static_assert(Sparsifier<threshold>);

struct significant_options {
  float first = 0.01F;  ///< v_0: the threshold of round 0, relative to the parameter
  float floor = 1e-3F;  ///< a parameter smaller than this counts as this large

  void serialize(auto& ar) { ar(first, floor); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const significant_options& o) {
  constexpr float most = std::numeric_limits<float>::max();
  if (o.first > 0 && o.first <= most && o.floor > 0 && o.floor <= most) return {};
  return fail(errc::invalid_argument, "significant",
              "a threshold of " + std::to_string(o.first) + " and a floor of " + std::to_string(o.floor) +
                  "; both must be above 0");
}

/// Sparsifier: Gaia's significance filter (Hsieh et al., 2017, section 4.2): coordinate i travels when
/// |x_i| > v_t · max(|w_i|, floor), with v_t = v_0 / sqrt(t + 1) in round t and w = reference − x, the peer's own value: x
/// is how far that is below the reference. Without a reference, parameters count as 0. What is not finite travels too
/// (decoding refuses it). Give it the accumulated update: keep the residual.
class significant : public detail::sends_a_set<significant> {
 public:
  static constexpr std::string_view name = "significant";

  significant() : significant{significant_options{}} {}
  explicit significant(const significant_options& options) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const significant_options& options() const noexcept { return options_; }

  /// v_t.
  [[nodiscard]] float threshold_of(std::uint64_t round) const noexcept {
    return options_.first / static_cast<float>(std::sqrt(static_cast<double>(round) + 1.0));
  }

  std::size_t select(const message_context& ctx, std::span<const float> values, std::vector<std::uint32_t>& kept,
                     std::span<std::byte> room) const {
    detail::expect_row_size(values.size());
    CAUSEWAY_EXPECT(ctx.reference.empty() || ctx.reference.size() == values.size());
    const float v = threshold_of(ctx.round), floor = options_.floor;
    detail::coordinate_set large{values.size()};
    large.fill(ctx.pool, [&](std::size_t i) {
      const float parameter = ctx.reference.empty() ? 0.0F : std::abs(ctx.reference[i] - values[i]);
      return !(std::abs(values[i]) <= v * (parameter > floor ? parameter : floor)) ||
             detail::magnitude_bits(values[i]) >= 0x7F800000U;
    });
    large.list(ctx.pool, kept);
    return detail::write_set(kept, values.size(), room);
  }

 private:
  significant_options options_;
};
static_assert(Sparsifier<significant>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::int64_t), compress::detail::sum_squares)

#endif  // CAUSEWAY_COMPRESS_THRESHOLD_HPP
