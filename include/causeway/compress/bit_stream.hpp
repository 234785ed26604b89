// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BIT_STREAM_HPP
#define CAUSEWAY_COMPRESS_BIT_STREAM_HPP

// Unsigned numbers of 0 to 32 bits, packed without gaps: the first number in the lowest bits of the first byte. Bits after
// the last number are zero, and readers hold senders to that, so that equal numbers are equal bytes.

#include <causeway/config/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Bytes that hold `bits` bits.
constexpr std::size_t bytes_of_bits(std::size_t bits) noexcept { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }

/// Bits of a number below `bound`: ceil(log2(bound)), 0 for a bound of 0 or 1.
constexpr unsigned bits_below(std::size_t bound) noexcept {
  return bound <= 1 ? 0 : static_cast<unsigned>(std::bit_width(bound - 1));
}

/// Writes numbers one after another. The room must be large enough; `finish` pads to a byte.
class bit_writer {
 public:
  explicit bit_writer(std::span<std::byte> room) noexcept : next_{room.data()}, end_{room.data() + room.size()} {}

  /// The lowest `bits` (0 to 32) of `value`; the others must be zero.
  void put(std::uint32_t value, unsigned bits) noexcept {
    waiting_ |= std::uint64_t{value} << count_;
    count_ += bits;
    if (count_ < 32) return;
    CAUSEWAY_EXPECT(end_ - next_ >= 4);
    const auto word = static_cast<std::uint32_t>(waiting_);
    std::memcpy(next_, &word, sizeof word);
    next_ += sizeof word;
    waiting_ >>= 32U;
    count_ -= 32;
  }

  /// Writes the bits that wait, and zeros up to the next byte.
  void finish() noexcept {
    const std::size_t bytes = bytes_of_bits(count_);
    CAUSEWAY_EXPECT(static_cast<std::size_t>(end_ - next_) >= bytes);
    if (bytes != 0) std::memcpy(next_, &waiting_, bytes);
    next_ += bytes;
    waiting_ = 0;
    count_ = 0;
  }

 private:
  std::byte* next_;
  std::byte* end_;
  std::uint64_t waiting_ = 0;
  unsigned count_ = 0;
};

/// Reads at any bit. Beyond the end everything reads as zero, so a reader never leaves its bytes.
class bit_reader {
 public:
  explicit bit_reader(std::span<const std::byte> bytes) noexcept : bytes_{bytes} {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() * 8; }

  /// The 57 or more bits from bit `at` on, in the lowest places.
  [[nodiscard]] std::uint64_t window(std::size_t at) const noexcept {
    const std::size_t first = at / 8;
    std::uint64_t word = 0;
    if (first + sizeof word <= bytes_.size()) {
      std::memcpy(&word, bytes_.data() + first, sizeof word);
    } else if (first < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + first, bytes_.size() - first);
    }
    return word >> (at % 8);
  }

  /// The number of `bits` (0 to 32) bits at bit `at`.
  [[nodiscard]] std::uint32_t get(std::size_t at, unsigned bits) const noexcept {
    return static_cast<std::uint32_t>(window(at) & ((std::uint64_t{1} << bits) - 1));
  }

  /// Whether all bits from `at` to the end of the bytes are zero.
  [[nodiscard]] bool zero_from(std::size_t at) const noexcept {
    for (; at < size(); at += 56) {
      if ((window(at) & ((std::uint64_t{1} << 56U) - 1)) != 0) return false;
    }
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_BIT_STREAM_HPP
