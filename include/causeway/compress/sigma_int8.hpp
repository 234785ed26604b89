// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SIGMA_INT8_HPP
#define CAUSEWAY_COMPRESS_SIGMA_INT8_HPP

// The "uniform 8-bit" quantiser of hivemind, which PRIME and Templar took over: 256 buckets of equal width about the mean,
// together six standard deviations wide, and each value replaced by the mean of the values in its bucket. The bucket means
// travel as a codebook of 256 f32, so a reader needs no arithmetic. Values beyond the outermost buckets count to them and
// move their means. On the wire: the codebooks of all blocks, then one code a value.

#include <causeway/compress/bucket_means.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct sigma_int8_options {
  std::uint32_t block = 65536;       ///< values that share a codebook of 1 KiB: 256 to 2^20, a multiple of 64
  float range_in_deviations = 6.0F;  ///< width of all buckets together, in standard deviations: 1 to 64

  void serialize(auto& ar) { ar(block, range_in_deviations); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const sigma_int8_options& o) {
  if (o.block < 256 || o.block > (1U << 20U) || o.block % 64 != 0) {
    return fail(errc::invalid_argument, "sigma_int8",
                "a block of " + std::to_string(o.block) + " values; take 256 to 1048576, a multiple of 64");
  }
  if (o.range_in_deviations >= 1.0F && o.range_in_deviations <= 64.0F) return {};
  return fail(errc::invalid_argument, "sigma_int8", "the range must be 1 to 64 standard deviations");
}

namespace detail {

using sigma_codebook = codebook_of<8>;

}  // namespace detail

/// n + 1024 · ceil(n / block) bytes: 8.125 bits a value with blocks of 65536. For fewer values than a few thousand the
/// codebook outweighs what it saves; block_int8 is the codec for those.
///
/// With m and s the mean and the standard deviation (n - 1 in the denominator) of a block, and w = range · s / 256, bucket
/// c holds the values nearest to m + (c - 128) · w. They are off by at most w, and by about w / √12 on average; but what
/// lies beyond the outermost buckets (with range 6, more than 3 s from m) counts to them, and is off by what it differs
/// from their means. The decoded block has the sum of the original, but for rounding. A block of equal values is exact.
/// What is lost is never longer than what was put in, but no factor below 1 holds for all values: a block whose outermost
/// bucket holds one value of size M and k just beyond the range loses almost k / (k + 1) of M². Of normal values 0.02% is
/// lost.
///
/// Refused by decode like infinite values: blocks whose squared deviations add up to more than 3.4e38.
class sigma_int8 : public detail::decodes_to_sink<sigma_int8> {
 public:
  static constexpr std::string_view name = "sigma_int8";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit sigma_int8(const sigma_int8_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + codebook_bytes(n); }
  [[nodiscard]] const sigma_int8_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    std::byte* const codes = room.data() + codebook_bytes(values.size());
    const auto encode_part = [&](index_range r) {
      for_parts(r, [&](std::int64_t at, std::int64_t length) {
        kernels::detail::dispatch<detail::encode_buckets<8>>(level, values.data() + at, room.data() + codebook_offset(at),
                                                             codes + at, length, options_.range_in_deviations,
                                                             r.end - at - length);
      });
    };
    pool.for_range(static_cast<std::int64_t>(values.size()), std::int64_t{options_.block}, encode_part);
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<sigma_int8>;

  /// Only a codebook can be wrong. Threads may share a block here: a value depends on its code and the codebook alone.
  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(to.size()));
    }
    const std::size_t head = codebook_bytes(to.size());
    const auto* const means = reinterpret_cast<const float*>(bytes.data());
    if (!kernels::detail::dispatch<kernels::detail::finite_kernel>(level, means,
                                                                   static_cast<std::int64_t>(head / sizeof(float)))) {
      return detail::not_finite(name);
    }
    const std::byte* const codes = bytes.data() + head;
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(to.size()), [&](index_range r) {
      for_parts(r, [&](std::int64_t at, std::int64_t length) {
        kernels::detail::dispatch<detail::decode_buckets<8, Sink>>(level, bytes.data() + codebook_offset(at), codes + at,
                                                                   to.data() + at, length, sink);
      });
    });
    return {};
  }

  /// Calls `f(first, count)` for the parts of a range that lie in one block each.
  template <class F>
  void for_parts(index_range r, F&& f) const {
    const std::int64_t block = options_.block;
    for (std::int64_t at = r.begin; at < r.end;) {
      const std::int64_t end = std::min(r.end, (at / block + 1) * block);
      f(at, end - at);
      at = end;
    }
  }

  [[nodiscard]] std::size_t codebook_bytes(std::size_t n) const noexcept {
    return detail::blocks_of(n, options_.block) * detail::sigma_codebook::bytes;
  }
  [[nodiscard]] std::size_t codebook_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * detail::sigma_codebook::bytes;
  }

  sigma_int8_options options_;
};
static_assert(AddingCodec<sigma_int8>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_SIGMA_INT8_HPP
