// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP
#define CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP

// Bodies of net/float_packing.hpp. A packed block: the lengths of the 256 codes in half bytes; the lower three bytes of
// each value; what does not fill a value; the codes of the top bytes, first bits lowest.

#include <causeway/net/float_packing.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

inline constexpr std::size_t lengths_bytes = 128;

/// Canonical codes (shorter before longer, then by symbol), their bits reversed: the first to be read is the lowest.
struct huffman_codes {
  std::array<std::uint16_t, 256> bits{};

  explicit huffman_codes(const code_lengths& lengths) {
    unsigned code = 0;
    for (unsigned length = 1; length <= longest_code; ++length, code <<= 1U) {
      for (unsigned symbol = 0; symbol < 256; ++symbol) {
        if (lengths[symbol] != length) continue;
        for (unsigned b = 0; b < length; ++b)
          bits[symbol] |= static_cast<std::uint16_t>((code >> b & 1U) << (length - 1 - b));
        ++code;
      }
    }
  }
};

/// Whether the lengths are those of a Huffman code: no two codes begin alike, and nothing could be added to them, unless it
/// is one code of one bit.
inline bool is_code(const code_lengths& lengths) {
  std::size_t used = 0, codes = 0;
  for (const unsigned length : lengths) {
    if (length > longest_code) return false;
    if (length == 0) continue;
    used += std::size_t{1} << (longest_code - length);
    ++codes;
  }
  return used == std::size_t{1} << (codes == 1 ? longest_code - 1 : longest_code);
}

inline std::size_t packed_size(const code_lengths& lengths, const std::array<std::uint32_t, 256>& counts,
                               std::size_t size) {
  std::uint64_t code_bits = 0;
  for (std::size_t s = 0; s < 256; ++s) code_bits += std::uint64_t{lengths[s]} * counts[s];
  return lengths_bytes + size / 4 * 3 + size % 4 + static_cast<std::size_t>((code_bits + 7) / 8);
}

CAUSEWAY_DECL code_lengths huffman_lengths(std::array<std::uint32_t, 256> counts) {
  for (;;) {
    // Nodes: 256 leaves, then what was merged. The two lightest become one until a single one is left.
    std::array<std::uint64_t, 511> weight{};
    std::array<std::uint16_t, 511> parent{};
    std::array<std::uint16_t, 256> heap{};
    std::size_t size = 0;
    const auto heavier = [&](std::uint16_t a, std::uint16_t b) {
      return weight[a] != weight[b] ? weight[a] > weight[b] : a > b;
    };
    for (std::uint16_t s = 0; s < 256; ++s) {
      if ((weight[s] = counts[s]) > 0) heap[size++] = s;
    }
    code_lengths lengths{};
    if (size == 0) return lengths;
    if (size == 1) {
      lengths[heap[0]] = 1;
      return lengths;
    }
    std::make_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
    const auto take = [&] {
      std::pop_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
      return heap[--size];
    };
    std::uint16_t next = 256;
    for (; size > 1; ++next) {
      const std::uint16_t a = take(), b = take();
      weight[next] = weight[a] + weight[b];
      parent[a] = parent[b] = next;
      heap[size++] = next;
      std::push_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
    }
    unsigned longest = 0;
    for (std::size_t s = 0; s < 256; ++s) {
      if (counts[s] == 0) continue;
      unsigned depth = 0;
      for (std::size_t n = s; n + 1 != next; n = parent[n]) ++depth;
      lengths[s] = static_cast<std::uint8_t>(std::min(depth, 255U));
      longest = std::max(longest, depth);
    }
    if (longest <= longest_code) return lengths;
    for (std::uint32_t& c : counts) c = (c + 1) / 2;  // flatter: in the end all are 1 and no code is longer than 8
  }
}

}  // namespace detail

CAUSEWAY_DECL std::size_t pack_floats(std::span<const std::byte> in, std::span<std::byte> out) {
  const std::size_t values = in.size() / 4, rest = in.size() % 4;
  // Four tables: consecutive values have equal top bytes so often that one would wait for its own last store.
  std::array<std::array<std::uint32_t, 256>, 4> partly{};
  for (std::size_t i = 0; i < values; ++i) ++partly[i % 4][std::to_integer<std::size_t>(in[4 * i + 3])];
  std::array<std::uint32_t, 256> counts{};
  for (std::size_t s = 0; s < 256; ++s) counts[s] = partly[0][s] + partly[1][s] + partly[2][s] + partly[3][s];
  const auto lengths = detail::huffman_lengths(counts);
  const std::size_t size = detail::packed_size(lengths, counts, in.size());
  if (size > in.size() - in.size() / 32 || size > out.size()) return 0;

  const detail::huffman_codes codes{lengths};
  for (std::size_t i = 0; i < detail::lengths_bytes; ++i) {
    out[i] = static_cast<std::byte>(lengths[2 * i] | lengths[2 * i + 1] << 4U);
  }
  std::byte* low = out.data() + detail::lengths_bytes;
  std::byte* top = low + 3 * values + rest;
  std::uint64_t bits = 0;
  unsigned filled = 0;
  for (std::size_t i = 0; i < values; ++i, low += 3) {
    std::memcpy(low, in.data() + 4 * i, 3);
    const auto symbol = std::to_integer<std::size_t>(in[4 * i + 3]);
    bits |= std::uint64_t{codes.bits[symbol]} << filled;
    filled += lengths[symbol];
    for (; filled >= 8; filled -= 8, bits >>= 8U) *top++ = static_cast<std::byte>(bits & 0xFFU);
  }
  if (rest > 0) std::memcpy(low, in.data() + 4 * values, rest);
  if (filled > 0) *top = static_cast<std::byte>(bits);
  return size;
}

CAUSEWAY_DECL result<void> unpack_floats(std::span<const std::byte> packed, std::span<std::byte> out) {
  const std::size_t values = out.size() / 4, rest = out.size() % 4, low_bytes = 3 * values + rest;
  const auto corrupt = [] {
    return fail(errc::corrupt, "packed floats", "these bytes are not the packed form of as many");
  };
  if (packed.size() < detail::lengths_bytes + low_bytes) return corrupt();
  detail::code_lengths lengths{};
  for (std::size_t i = 0; i < detail::lengths_bytes; ++i) {
    lengths[2 * i] = std::to_integer<std::uint8_t>(packed[i] & std::byte{0xF});
    lengths[2 * i + 1] = std::to_integer<std::uint8_t>(packed[i] >> 4);
  }
  if (!detail::is_code(lengths)) return corrupt();

  struct entry {
    std::uint8_t symbol = 0, length = 0;  // length 0: no code begins so
  };
  std::array<entry, std::size_t{1} << detail::longest_code> table{};
  const detail::huffman_codes codes{lengths};
  for (unsigned s = 0; s < 256; ++s) {
    if (lengths[s] == 0) continue;
    for (std::size_t at = codes.bits[s]; at < table.size(); at += std::size_t{1} << lengths[s]) {
      table[at] = {static_cast<std::uint8_t>(s), lengths[s]};
    }
  }

  const std::byte* low = packed.data() + detail::lengths_bytes;
  const std::byte* top = low + low_bytes;
  const std::byte* const end = packed.data() + packed.size();
  std::uint64_t bits = 0;
  unsigned filled = 0;
  for (std::size_t i = 0; i < values; ++i, low += 3) {
    for (; filled < detail::longest_code && top != end; filled += 8)
      bits |= std::to_integer<std::uint64_t>(*top++) << filled;
    const entry e = table[bits & (table.size() - 1)];
    if (e.length == 0 || e.length > filled) return corrupt();
    bits >>= e.length;
    filled -= e.length;
    std::memcpy(out.data() + 4 * i, low, 3);
    out[4 * i + 3] = std::byte{e.symbol};
  }
  if (top != end || filled >= 8 || bits != 0) return corrupt();
  if (rest > 0) std::memcpy(out.data() + 4 * values, low, rest);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP
