// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROW_BITS_HPP
#define CAUSEWAY_STAGE_ROW_BITS_HPP

// A few bits a value with one scale for each row of a boundary tensor, that is for each token of each sequence. (The
// default of AQ-SGD's code is a scale for each channel of a micro-batch.) compress::bits does the work, with a row as its
// bucket.

#include <causeway/compress/bits.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

struct row_bits_options {
  compress::bucket_scale scale = compress::bucket_scale::max;
  compress::scale_format scales = compress::scale_format::f32;
  bool stochastic = false;  ///< the expected result is the value; seeded by the message
};

/// rows · width values, row after row. Where width is a multiple of 16 (to 65536) all rows are one message of
/// compress::bits, else each row is one of its own, and rows beyond 65536 values have a scale for each 65536.
///
/// Bytes: for a width of the first kind rows · (4 + Bits · width / 8). Error, with scale max: max|row| / (2^Bits - 2) for 3
/// bits and more, max|row| / (2^Bits - 1) for 2; rows of zeros are exact.
template <unsigned Bits>
class row_bits {
  static_assert(Bits >= 2 && Bits <= 8, "one bit has neither a zero nor two magnitudes: take 2 to 8");

 public:
  row_bits(std::int64_t rows, std::int64_t width, const row_bits_options& options, std::uint64_t seed = 0)
      : rows_{static_cast<std::size_t>(rows)},
        width_{static_cast<std::size_t>(width)},
        codec_{bits_of(width, options, seed)} {}

  [[nodiscard]] std::size_t encoded_size() const noexcept {
    return together() ? codec_.encoded_size(rows_ * width_) : rows_ * codec_.encoded_size(width_);
  }

  /// Writes encoded_size() bytes. NaN and infinity are encoded so that reading them fails.
  void encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(values.size() == rows_ * width_ && room.size() >= encoded_size());
    if (together()) {
      codec_.encode(pool, values, room);
      return;
    }
    const std::size_t bytes = codec_.encoded_size(width_);
    for (std::size_t row = 0; row < rows_; ++row) {
      codec_.encode(pool, values.subspan(row * width_, width_), room.subspan(row * bytes, bytes));
    }
  }

  /// Errors as compress::bits has; `values` are then unspecified.
  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values) const {
    CAUSEWAY_EXPECT(values.size() == rows_ * width_);
    return read(bytes, [&](std::span<const std::byte> part, std::size_t first, std::size_t count) {
      return codec_.decode(pool, part, values.subspan(first, count));
    });
  }

  /// sum[i] becomes the rounded sum[i] + value[i], to the bit on every machine. After an error `sum` is unspecified.
  result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum) const {
    CAUSEWAY_EXPECT(sum.size() == rows_ * width_);
    return read(bytes, [&](std::span<const std::byte> part, std::size_t first, std::size_t count) {
      return codec_.decode_add(pool, part, sum.subspan(first, count), 1.0F);
    });
  }

 private:
  static compress::bits<Bits> bits_of(std::int64_t width, const row_bits_options& options, std::uint64_t seed) {
    const std::int64_t bucket = std::clamp<std::int64_t>((width + 15) / 16 * 16, 16, 65536);
    return compress::bits<Bits>{{.bucket = static_cast<std::uint32_t>(bucket),
                                 .scale = options.scale,
                                 .scales = options.scales,
                                 .stochastic = options.stochastic,
                                 .seed = seed}};
  }
  [[nodiscard]] bool together() const noexcept { return codec_.block() == width_; }

  template <class Read>
  result<void> read(std::span<const std::byte> bytes, Read&& one) const {
    if (bytes.size() != encoded_size()) {
      return compress::detail::wrong_length(compress::bits<Bits>::name, bytes.size(), encoded_size());
    }
    if (together()) return one(bytes, 0, rows_ * width_);
    const std::size_t row_bytes = codec_.encoded_size(width_);
    for (std::size_t row = 0; row < rows_; ++row) {
      CAUSEWAY_TRY(one(bytes.subspan(row * row_bytes, row_bytes), row * width_, width_));
    }
    return {};
  }

  std::size_t rows_, width_;
  compress::bits<Bits> codec_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_ROW_BITS_HPP
