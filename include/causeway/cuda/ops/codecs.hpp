// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_CODECS_HPP
#define CAUSEWAY_CUDA_OPS_CODECS_HPP

// Encoding and decoding where a queue computes: the messages are those of compress/, byte by byte. `wire_code` is what each
// codec of compress/ is here; rows and messages lie in memory of the queue.

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/block_codes.hpp>
#include <causeway/cuda/bodies/codec_bodies.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/cuda/wire_codec.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

template <class Codec>
struct wire_code;
template <>
struct wire_code<compress::block_int8> {
  using type = int8_code;
};
template <>
struct wire_code<compress::e3m0> {
  using type = e3m0_code;
};
template <unsigned Bits>
struct wire_code<compress::bits<Bits>> {
  using type = bits_code<Bits>;
};

template <class Codec>
struct wire_half;
template <>
struct wire_half<compress::none> {
  using type = float;
};
template <>
struct wire_half<compress::bf16> {
  using type = causeway::bf16;
};
template <>
struct wire_half<compress::fp16> {
  using type = causeway::f16;
};

template <class Codec>
concept HalfCodec = requires {
  typename wire_half<Codec>::type;
};

/// Bytes of a message that come before the codes, one or none for each block.
template <WireCodec Codec>
[[nodiscard]] std::size_t scale_bytes(const Codec& codec, std::size_t n) {
  if constexpr (HalfCodec<Codec>) {
    return 0;
  } else {
    const typename wire_code<Codec>::type code{codec.options()};
    const auto block = static_cast<std::size_t>(code.block);
    return (n + block - 1) / block * static_cast<std::size_t>(code.scale_bytes());
  }
}

inline std::int64_t octets_of(std::size_t n) { return static_cast<std::int64_t>((n + 7) / 8); }

}  // namespace detail

/// Encodes n values to `room`, of codec.encoded_size(n) bytes, aligned to 16. With an error in the source it is fed back on
/// the way. Where the values are not finite, *found (in the queue's memory; zeroed by the caller; may be null) is not zero
/// afterwards, and every reader refuses the message. Reads 4 bytes a value twice, the second time from the cache, and 12
/// bytes more with an error.
template <Queue Q, WireCodec Codec>
[[nodiscard]] result<void> encode(Q& q, const Codec& codec, const codec_source& from, std::size_t n,
                                  std::span<std::byte> room, std::uint32_t* found = nullptr) {
  CAUSEWAY_EXPECT(room.size() >= codec.encoded_size(n));
  const auto count = static_cast<std::int64_t>(n);
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    return q.elements(count, half_encode_body<half>{from, reinterpret_cast<half*>(room.data()), found});
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const code_type code{codec.options()};
    std::byte* const codes = room.data() + detail::scale_bytes(codec, n);
    const block_encode_body<code_type> body{from, room.data(), codes, count, code, found};
    return q.groups((count + code.block - 1) / code.block, body);
  }
}

/// Looks for what no encoder makes: *found (zeroed by the caller) is then not zero. Ask `verdict` for the error when the
/// host has the number. The number of bytes is checked at once.
template <Queue Q, WireCodec Codec>
[[nodiscard]] result<void> check_bytes(Q& q, const Codec& codec, std::span<const std::byte> bytes, std::size_t n,
                                       std::uint32_t* found) {
  if (bytes.size() != codec.encoded_size(n)) {
    return compress::detail::wrong_length(Codec::name, bytes.size(), codec.encoded_size(n));
  }
  const auto count = static_cast<std::int64_t>(n);
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    return q.elements(count, half_check_body<half>{reinterpret_cast<const half*>(bytes.data()), found});
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const std::byte* const codes = bytes.data() + detail::scale_bytes(codec, n);
    const block_check_body<code_type> body{bytes.data(), codes, count, code_type{codec.options()}, found};
    return q.elements(detail::octets_of(n), body);
  }
}

/// What `found`, copied to the host, means.
[[nodiscard]] inline result<void> verdict(std::uint32_t found, std::string_view codec) {
  return compress::detail::to_result(found, codec, "bytes that break the format");
}

/// What becomes of decoded values: they replace the row's, or weight times each is added. With a `refused` word that is not
/// zero by then, nothing happens.
struct decoded {
  bool is_added = false;
  float weight = 1.0F;
  const std::uint32_t* refused = nullptr;
};

/// to [n] = what the bytes decode to, or to + weight · that: the bits of the codec's decode and decode_add. The bytes,
/// aligned to 16, must have passed check_bytes, or its word be given as `refused`.
template <Queue Q, WireCodec Codec>
[[nodiscard]] result<void> decode(Q& q, const Codec& codec, std::span<const std::byte> bytes, float* to, std::size_t n,
                                  const decoded& how = {}) {
  CAUSEWAY_EXPECT(bytes.size() == codec.encoded_size(n));
  const auto count = static_cast<std::int64_t>(n);
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    const auto* const from = reinterpret_cast<const half*>(bytes.data());
    return q.elements(count, half_decode_body<half>{from, to, how.is_added, how.weight, how.refused});
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const code_type code{codec.options()};
    const std::byte* const codes = bytes.data() + detail::scale_bytes(codec, n);
    const block_decode_body<code_type> body{bytes.data(), codes, to, count, code, how.is_added, how.weight, how.refused};
    return q.elements(detail::octets_of(n), body);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_CODECS_HPP
