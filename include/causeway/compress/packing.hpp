// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_PACKING_HPP
#define CAUSEWAY_COMPRESS_PACKING_HPP

// Codes of 1 to 8 bits, one after another without gaps: code i occupies the bits [i·Bits, (i+1)·Bits) of the bytes, counted
// from the lowest bit of the first byte. Sixteen codes at a time, one in each byte of a vector, so all of it is shifts and
// masks of 64-bit lanes that every instruction set has. Sixteen codes take 2·Bits whole bytes; only a message's last byte
// can have bits to spare, and those are zero.

#include <causeway/kernels/simd_math.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress { namespace detail {

using i8x16 [[gnu::vector_size(16)]] = std::int8_t;
using u8x16 [[gnu::vector_size(16)]] = std::uint8_t;
using u64x2 [[gnu::vector_size(16)]] = std::uint64_t;
using u32x4 [[gnu::vector_size(16)]] = std::uint32_t;
using u16x8 [[gnu::vector_size(16)]] = std::uint16_t;
using u16x4 [[gnu::vector_size(8)]] = std::uint16_t;
using u8x8 [[gnu::vector_size(8)]] = std::uint8_t;
using u8x4 [[gnu::vector_size(4)]] = std::uint8_t;

// In two steps: compilers take a conversion across a factor of four apart into single elements.
CAUSEWAY_ALWAYS_INLINE void widen_codes(kernels::detail::i32x16& wide, const u8x16& codes) {
  using u16x16 = kernels::detail::u16x16;
  wide = __builtin_convertvector(__builtin_convertvector(codes, u16x16), kernels::detail::i32x16);
}
CAUSEWAY_ALWAYS_INLINE void widen_codes(kernels::detail::i32x16& wide, const i8x16& codes) {
  using i16x16 [[gnu::vector_size(32)]] = std::int16_t;
  wide = __builtin_convertvector(__builtin_convertvector(codes, i16x16), kernels::detail::i32x16);
}
/// In a function of its own: nvcc cannot compile the conversion inside a lambda.
CAUSEWAY_ALWAYS_INLINE void to_floats(kernels::detail::f32x16& v, const kernels::detail::i32x16& integers) {
  v = __builtin_convertvector(integers, kernels::detail::f32x16);
}
/// Keeps the low eight bits.
CAUSEWAY_ALWAYS_INLINE void narrow_codes(u8x16& codes, const kernels::detail::i32x16& wide) {
  codes = __builtin_convertvector(__builtin_convertvector(wide, kernels::detail::u16x16), u8x16);
}

/// `entry(lane)` of sixteen lanes, each read from memory. In four vectors of four: GCC would fill a wide one lane by lane,
/// each waiting for the one before.
template <class Vector, class Entry>
CAUSEWAY_ALWAYS_INLINE void look_up(Vector& v, Entry&& entry) {
  using quarter [[gnu::vector_size(16)]] = std::remove_reference_t<decltype(v[0])>;
  const quarter a{entry(0), entry(1), entry(2), entry(3)}, b{entry(4), entry(5), entry(6), entry(7)};
  const quarter c{entry(8), entry(9), entry(10), entry(11)}, d{entry(12), entry(13), entry(14), entry(15)};
  v = __builtin_shufflevector(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7),
                              __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                              12, 13, 14, 15);
}

constexpr std::size_t packed_size(std::size_t codes, unsigned bits) noexcept { return (codes * bits + 7) / 8; }

/// 64 bits in which the lowest `bits` of every `width` are set.
constexpr std::uint64_t comb(unsigned width, unsigned bits) noexcept {
  std::uint64_t all = 0;
  for (unsigned at = 0; at < 64; at += width) all |= (~std::uint64_t{0} >> (64U - bits)) << at;
  return all;
}

/// Fields of `Width` bits hold `Bits` each, at the bottom: after this, fields twice as wide hold twice as many.
template <unsigned Width, unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void join_fields(u64x2& x) {
  if constexpr (Bits < Width) {
    x = (x & comb(2 * Width, Bits)) | ((x >> (Width - Bits)) & (comb(2 * Width, Bits) << Bits));
  }
}

/// The inverse: fields of twice `Width` bits come apart.
template <unsigned Width, unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void part_fields(u64x2& x) {
  if constexpr (Bits < Width) {
    x = (x & comb(2 * Width, Bits)) | ((x << (Width - Bits)) & (comb(2 * Width, Bits) << Width));
  }
}

template <unsigned Bytes>
CAUSEWAY_ALWAYS_INLINE void store_bytes(std::byte* to, std::uint64_t v) {
  constexpr unsigned step = Bytes >= 8 ? 8 : Bytes >= 4 ? 4 : Bytes >= 2 ? 2 : 1;
  std::memcpy(to, &v, step);
  if constexpr (Bytes > step) store_bytes<Bytes - step>(to + step, v >> (8 * step));
}

/// Composed in registers: bytes copied into a variable one by one would have to be stored before they could be read.
template <unsigned Bytes>
CAUSEWAY_ALWAYS_INLINE std::uint64_t load_bytes(const std::byte* from) {
  using word = std::conditional_t<
      Bytes >= 8, std::uint64_t,
      std::conditional_t<Bytes >= 4, std::uint32_t, std::conditional_t<Bytes >= 2, std::uint16_t, std::uint8_t>>>;
  word v = 0;
  std::memcpy(&v, from, sizeof v);
  if constexpr (Bytes > sizeof v) {
    return v | load_bytes<Bytes - sizeof v>(from + sizeof v) << (8 * sizeof v);
  } else {
    return v;
  }
}

/// Eight codes of one bit, a byte each, to one byte: a multiplication moves each to its place.
CAUSEWAY_ALWAYS_INLINE std::byte gather_bits(std::uint64_t codes) {
  return static_cast<std::byte>(codes * 0x0102040810204080U >> 56U);
}

/// Sixteen codes, each below 2^Bits, to 2·Bits bytes. Where neighbours fill whole bytes, these leave in one store.
template <unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void pack(std::byte* to, const u8x16& codes, kernels::detail::whole) {
  u64x2 x = reinterpret_cast<u64x2>(codes);
  if constexpr (Bits == 8) {
    std::memcpy(to, &codes, sizeof codes);
  } else if constexpr (Bits == 4) {
    x |= x >> 4;
    const u8x8 bytes = __builtin_convertvector(reinterpret_cast<u16x8>(x), u8x8);
    std::memcpy(to, &bytes, sizeof bytes);
  } else if constexpr (Bits == 2) {
    join_fields<8, 2>(x);
    x |= x >> 12;
    const u16x4 halves = __builtin_convertvector(reinterpret_cast<u32x4>(x), u16x4);
    const u8x4 bytes = __builtin_convertvector(halves, u8x4);
    std::memcpy(to, &bytes, sizeof bytes);
  } else if constexpr (Bits == 1) {
    to[0] = gather_bits(x[0]);
    to[1] = gather_bits(x[1]);
  } else {
    join_fields<8, Bits>(x);
    join_fields<16, 2 * Bits>(x);
    join_fields<32, 4 * Bits>(x);
    store_bytes<Bits>(to, x[0]);
    store_bytes<Bits>(to + Bits, x[1]);
  }
}

/// The first codes only; bits to spare become zero.
template <unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void pack(std::byte* to, const u8x16& codes, kernels::detail::tail part) {
  const auto count = static_cast<std::size_t>(part.count);
  u8x16 kept{};
  std::memcpy(&kept, &codes, count);
  std::byte packed[2 * Bits];
  pack<Bits>(packed, kept, kernels::detail::whole{});
  std::memcpy(to, packed, packed_size(count, Bits));
}

/// Codes of two bits in lanes of 32. `Wide`: for a kernel's `run_wide`, where one instruction narrows lanes of 64 bits to
/// bytes; elsewhere compilers take such a conversion apart into single elements.
template <bool Wide, class Part>
CAUSEWAY_ALWAYS_INLINE void pack_lanes(std::byte* to, const kernels::detail::i32x16& codes, Part part) {
  if constexpr (Wide && std::is_same_v<Part, kernels::detail::whole>) {
    using u64x8 [[gnu::vector_size(64)]] = std::uint64_t;
    u64x8 pairs = reinterpret_cast<u64x8>(codes);
    pairs |= pairs >> 30U;
    auto x = reinterpret_cast<std::uint64_t>(__builtin_convertvector(pairs, u8x8));
    x = (x | x >> 4U) & comb(16, 8);
    x = (x | x >> 8U) & comb(32, 16);
    store_bytes<4>(to, x | x >> 16U);
  } else {
    u8x16 narrow;
    narrow_codes(narrow, codes);
    pack<2>(to, narrow, part);
  }
}

/// The two halves of 2·Bits bytes, each at the bottom; from 5 bits on with bits of the other half above the lower one. Two
/// loads that overlap: GCC would put pieces together on the stack.
template <unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void load_halves(u64x2& x, const std::byte* from) {
  if constexpr (Bits > 4) {
    x = u64x2{load_bytes<8>(from), load_bytes<8>(from + 2 * Bits - 8) >> (64 - 8 * Bits)};
  } else {
    x = u64x2{load_bytes<Bits>(from), load_bytes<Bits>(from + Bits)};
  }
}

template <unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void unpack(u8x16& codes, const std::byte* from, kernels::detail::whole) {
  u64x2 x;
  load_halves<Bits>(x, from);
  part_fields<32, 4 * Bits>(x);
  part_fields<16, 2 * Bits>(x);
  part_fields<8, Bits>(x);
  codes = reinterpret_cast<u8x16>(x);
}

/// Codes beyond the tail are unspecified, but below 2^Bits.
template <unsigned Bits>
CAUSEWAY_ALWAYS_INLINE void unpack(u8x16& codes, const std::byte* from, kernels::detail::tail part) {
  std::byte packed[2 * Bits] = {};
  std::memcpy(packed, from, packed_size(static_cast<std::size_t>(part.count), Bits));
  unpack<Bits>(codes, packed, kernels::detail::whole{});
}

/// Sixteen codes of one bit, each the highest bit of its lane; the others are unspecified. One multiplication moves all of
/// them to their places: shifts by lane are not in every instruction set.
CAUSEWAY_ALWAYS_INLINE void unpack_highest(kernels::detail::u32x16& lanes, const std::byte* from, kernels::detail::whole) {
  constexpr kernels::detail::u32x16 places = {1U << 31U, 1U << 30U, 1U << 29U, 1U << 28U, 1U << 27U, 1U << 26U,
                                              1U << 25U, 1U << 24U, 1U << 23U, 1U << 22U, 1U << 21U, 1U << 20U,
                                              1U << 19U, 1U << 18U, 1U << 17U, 1U << 16U};
  lanes = places * static_cast<std::uint32_t>(load_bytes<2>(from));
}
CAUSEWAY_ALWAYS_INLINE void unpack_highest(kernels::detail::u32x16& lanes, const std::byte* from,
                                           kernels::detail::tail part) {
  std::byte packed[2] = {};
  std::memcpy(packed, from, packed_size(static_cast<std::size_t>(part.count), 1));
  unpack_highest(lanes, packed, kernels::detail::whole{});
}

/// Whether code 0, which no encoder of levels about zero makes, is among packed codes.
template <unsigned Bits>
struct find_unused_code {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const std::byte* codes, std::int64_t count) {
    i8x16 found{};
    std::int64_t i = 0;
    u8x16 code;
    for (; i + 16 <= count; i += 16) {
      unpack<Bits>(code, codes + i / 8 * Bits, kernels::detail::whole{});
      found |= code == 0;
    }
    const u64x2 halves = reinterpret_cast<u64x2>(found);
    bool any = (halves[0] | halves[1]) != 0;
    if (i == count) return any;
    unpack<Bits>(code, codes + i / 8 * Bits, kernels::detail::tail{count - i});
    for (std::int64_t lane = 0; lane < count - i; ++lane) any |= code[lane] == 0;
    return any;
  }
};

/// Whether the bits behind the last code are zero.
inline bool spare_bits_clear(std::span<const std::byte> packed, std::size_t codes, unsigned bits) {
  const std::size_t used = codes * bits % 8;
  return used == 0 || std::to_integer<unsigned>(packed.back()) >> used == 0;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::compress::detail

#endif  // CAUSEWAY_COMPRESS_PACKING_HPP
