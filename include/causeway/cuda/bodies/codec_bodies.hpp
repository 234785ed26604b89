// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_CODEC_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_CODEC_BODIES_HPP

// The codecs with a scale per block of values (compress/block_int8.hpp, e3m0.hpp, bits.hpp) for the device, with the same
// bytes: what a GPU encodes a CPU decodes, and to the same bits. A group of threads, a warp on the device, encodes a block;
// a thread handles eight neighbours at a time, which are a whole number of bytes in every format. Error feedback happens on
// the way: the row that is encoded is gain · x + decay · e, and what it loses goes to e.

#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/block_codes.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// What is encoded: x, or with an `error` (error feedback; as long as x) gain · x + decay · error.
struct codec_source {
  const float* x = nullptr;
  float* error = nullptr;
  float gain = 1.0F;
  float decay = 1.0F;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x) && detail::on_packs(error); }
  template <int N>
  CAUSEWAY_HD void load(float (&v)[N], std::int64_t i) const {
    detail::load(v, x + i);
    if (error == nullptr) return;
    float e[N];
    detail::load(e, error + i);
    for (int k = 0; k < N; ++k) v[k] = detail::times(gain, v[k]) + detail::times(decay, e[k]);
  }
};

namespace detail {

/// Sets bits of *found, whoever else does so at the same time.
CAUSEWAY_HD inline void mark(std::uint32_t* found, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(found, bits);
#else
  std::atomic_ref{*found}.fetch_or(bits, std::memory_order_relaxed);
#endif
}
CAUSEWAY_HD inline void mark(std::uint32_t* found, compress::detail::decoding what) {
  mark(found, static_cast<std::uint32_t>(what));
}

/// v = the first `count` of eight neighbours from i on, by packs of N where all are there, else with zeros behind.
template <int N, class Source>
CAUSEWAY_HD inline void load_octet(const Source& from, std::int64_t i, int count, float (&v)[8]) {
  if (count == 8) {
    for (int k = 0; k < 8; k += N) {
      float part[N];
      from.load(part, i + k);
      for (int j = 0; j < N; ++j) v[k + j] = part[j];
    }
  } else {
    for (int k = 0; k < 8; ++k) {
      float one[1] = {0.0F};
      if (k < count) from.load(one, i + k);
      v[k] = one[0];
    }
  }
}

/// Stores the first `count` of eight, by packs of N where all are there.
template <int N>
CAUSEWAY_HD inline void put_octet(float* to, int count, const float (&v)[8]) {
  if (count < 8) {
    for (int k = 0; k < count; ++k) to[k] = v[k];
    return;
  }
  for (int k = 0; k < 8; k += N) {
    float part[N];
    for (int j = 0; j < N; ++j) part[j] = v[k + j];
    store(to + k, part);
  }
}

/// Eight codes of `Bits` bits, of which the first `count` exist. Wide stores where the address allows them.
template <unsigned Bits>
CAUSEWAY_HD inline void store_octet(std::byte* to, std::uint64_t word, int count) {
  const auto bytes = static_cast<unsigned>(compress::detail::packed_size(static_cast<std::size_t>(count), Bits));
  const auto at = reinterpret_cast<std::uintptr_t>(to);
  if (Bits % 4 == 0 && count == 8 && at % 4 == 0) {
    for (unsigned k = 0; k < Bits; k += 4)
      *reinterpret_cast<std::uint32_t*>(to + k) = static_cast<std::uint32_t>(word >> 8 * k);
  } else {
    for (unsigned k = 0; k < bytes; ++k) to[k] = static_cast<std::byte>(word >> 8 * k);
  }
}

template <unsigned Bits>
CAUSEWAY_HD inline std::uint64_t load_octet_codes(const std::byte* from, int count) {
  const auto bytes = static_cast<unsigned>(compress::detail::packed_size(static_cast<std::size_t>(count), Bits));
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  std::uint64_t word = 0;
  if (Bits % 4 == 0 && count == 8 && at % 4 == 0) {
    for (unsigned k = 0; k < Bits; k += 4)
      word |= std::uint64_t{*reinterpret_cast<const std::uint32_t*>(from + k)} << 8 * k;
  } else {
    for (unsigned k = 0; k < bytes; ++k) word |= std::uint64_t{static_cast<std::uint8_t>(from[k])} << 8 * k;
  }
  return word;
}

CAUSEWAY_HD inline int octet_size(std::int64_t n, std::int64_t first) {
  return n - first < 8 ? static_cast<int>(n - first) : 8;
}

}  // namespace detail

/// Encodes n values, a block to a group; over the blocks. `scales` and `codes` are the two parts of the message: codes
/// begin behind ceil(n / block) scales. A block that is not finite is encoded so that decoding refuses it, sets non_finite
/// in *found where found is not null, and leaves no error behind.
template <class Code>
struct block_encode_body {
  codec_source from{};
  std::byte* scales = nullptr;
  std::byte* codes = nullptr;
  std::int64_t n = 0;
  Code code{};
  std::uint32_t* found = nullptr;

  [[nodiscard]] bool aligned() const { return from.aligned(); }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t block) const {
    const std::int64_t begin = block * code.block;
    const std::int64_t length = n - begin < code.block ? n - begin : code.block;
    std::byte stored[4];
    const auto unit = code.template measure<N>(g, from, begin, length, stored);
    if (g.rank() == 0) {
      std::memcpy(scales + block * code.scale_bytes(), stored, static_cast<std::size_t>(code.scale_bytes()));
      if (found != nullptr && !unit.finite) detail::mark(found, compress::detail::decoding::non_finite);
    }
    for (std::int64_t i = std::int64_t{g.rank()} * 8; i < length; i += std::int64_t{g.size()} * 8) {
      encode_octet<N>(unit, begin, i, detail::octet_size(length, i));
    }
  }

 private:
  template <int N, class Unit>
  CAUSEWAY_HD void encode_octet(const Unit& unit, std::int64_t begin, std::int64_t i, int count) const {
    float v[8];
    detail::load_octet<N>(from, begin + i, count, v);
    std::uint64_t word = 0;
    for (int k = 0; k < count; ++k) {
      const std::uint32_t c = unit.encode(v[k], i + k) & ((1U << Code::bits) - 1U);
      word |= std::uint64_t{c} << (static_cast<unsigned>(k) * Code::bits);
      v[k] = unit.finite ? v[k] - unit.decode(c) : 0.0F;
    }
    detail::store_octet<Code::bits>(codes + (begin + i) / 8 * Code::bits, word, count);
    if (from.error != nullptr) detail::put_octet<N>(from.error + begin + i, count, v);
  }
};

/// to = what a message decodes to, or with `adds` to + weight · that (two roundings); over the octets, ceil(n / 8). Nothing
/// where the check of the bytes has left something in *refused.
template <class Code>
struct block_decode_body {
  const std::byte* scales = nullptr;
  const std::byte* codes = nullptr;
  float* to = nullptr;
  std::int64_t n = 0;
  Code code{};
  bool adds = false;
  float weight = 1.0F;
  const std::uint32_t* refused = nullptr;
  bool packs = detail::on_packs(to);

  CAUSEWAY_HD void operator()(std::int64_t octet) const {
    if (refused != nullptr && *refused != 0) return;
    if (packs) {
      decode<pack_width>(octet * 8);
    } else {
      decode<1>(octet * 8);
    }
  }

 private:
  template <int N>
  CAUSEWAY_HD void decode(std::int64_t i) const {
    const int count = detail::octet_size(n, i);
    const auto unit = code.read(scales, i / code.block);
    const std::uint64_t word = detail::load_octet_codes<Code::bits>(codes + i / 8 * Code::bits, count);
    float v[8] = {};
    if (adds) detail::load_octet<N>(codec_source{to}, i, count, v);
    for (int k = 0; k < count; ++k) {
      const auto c =
          static_cast<std::uint32_t>(word >> (static_cast<unsigned>(k) * Code::bits)) & ((1U << Code::bits) - 1U);
      v[k] = adds ? v[k] + detail::times(weight, unit.decode(c)) : unit.decode(c);
    }
    detail::put_octet<N>(to + i, count, v);
  }
};

/// Sets in *found what is wrong with bytes that anybody may have sent, as the CPU's decode would; over the octets. (Their
/// number must have been checked.)
template <class Code>
struct block_check_body {
  const std::byte* scales = nullptr;
  const std::byte* codes = nullptr;
  std::int64_t n = 0;
  Code code{};
  std::uint32_t* found = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t octet) const {
    const std::int64_t i = octet * 8;
    const int count = detail::octet_size(n, i);
    if (i % code.block == 0) {
      const auto scale = code.check_scale(scales, i / code.block);
      if (scale != compress::detail::decoding::good) detail::mark(found, scale);
    }
    const std::uint64_t word = detail::load_octet_codes<Code::bits>(codes + octet * Code::bits, count);
    bool bad = count < 8 && word >> (static_cast<unsigned>(count) * Code::bits) != 0;  // bits behind the last code
    for (int k = 0; k < count; ++k) {
      const auto c =
          static_cast<std::uint32_t>(word >> (static_cast<unsigned>(k) * Code::bits)) & ((1U << Code::bits) - 1U);
      bad |= Code::unused(c);
    }
    if (bad) detail::mark(found, compress::detail::decoding::corrupt);
  }
};

/// to = half, or with `adds` to + weight · half, for the codecs that send halves (bf16, fp16); over the elements. `refused`
/// as above.
template <class Half>
struct half_decode_body {
  const Half* from = nullptr;
  float* to = nullptr;
  bool adds = false;
  float weight = 1.0F;
  const std::uint32_t* refused = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(from) && detail::on_packs(to); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    if (refused != nullptr && *refused != 0) return;
    float v[N], sum[N];
    detail::load(v, from + i);
    if (adds) {
      detail::load(sum, to + i);
      for (int k = 0; k < N; ++k) v[k] = sum[k] + detail::times(weight, v[k]);
    }
    detail::store(to + i, v);
  }
};

/// half = gain · x + decay · error, whose loss goes to the error; without error, half = x. Over the elements.
template <class Half>
struct half_encode_body {
  codec_source from{};
  Half* to = nullptr;
  std::uint32_t* found = nullptr;

  [[nodiscard]] bool aligned() const { return from.aligned() && detail::on_packs(to); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], sent[N];
    from.load(v, i);
    detail::store(to + i, v);
    if (from.error == nullptr && found == nullptr) return;
    bool finite = true;
    for (int k = 0; k < N; ++k) {
      sent[k] = static_cast<float>(Half(v[k]));
      const bool good = sent[k] - sent[k] == 0.0F;
      finite &= good;
      v[k] = good ? v[k] - sent[k] : 0.0F;
    }
    if (found != nullptr && !finite) detail::mark(found, compress::detail::decoding::non_finite);
    if (from.error != nullptr) detail::store(from.error + i, v);
  }
};

/// Sets non_finite in *found where a half is not finite; over the elements.
template <class Half>
struct half_check_body {
  const Half* from = nullptr;
  std::uint32_t* found = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(from); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    detail::load(v, from + i);
    bool finite = true;
    for (const float e : v) finite &= e - e == 0.0F;
    if (!finite) detail::mark(found, compress::detail::decoding::non_finite);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_CODEC_BODIES_HPP
