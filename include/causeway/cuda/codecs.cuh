// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_CODECS_CUH
#define CAUSEWAY_CUDA_CODECS_CUH

// Encoding and decoding on the device, so that only compressed bytes cross to the host: the messages are those of
// compress/, byte by byte. `wire_code` is what each codec of compress/ is here.

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/block_codes.hpp>
#include <causeway/cuda/codec_bodies.hpp>
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/row_kernels.cuh>
#include <causeway/cuda/runtime.cuh>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::cuda {

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
struct wire_half<compress::bf16> {
  using type = causeway::bf16;
};
template <>
struct wire_half<compress::fp16> {
  using type = causeway::f16;
};

template <class Codec>
concept BlockCodec = requires {
  typename wire_code<Codec>::type;
};
template <class Codec>
concept HalfCodec = requires {
  typename wire_half<Codec>::type;
};

template <class Code>
std::size_t scale_bytes(const Code& code, std::size_t n) {
  const auto block = static_cast<std::size_t>(code.block);
  return (n + block - 1) / block * static_cast<std::size_t>(code.scale_bytes());
}

inline std::int64_t octets_of(std::size_t n) { return static_cast<std::int64_t>((n + 7) / 8); }

}  // namespace detail

/// Encodes n values to `room`, of codec.encoded_size(n) bytes on the device, aligned to 16. With an error in the source it
/// is fed back on the way. Where the values are not finite, *found (on the device; zeroed by the caller; may be null) is
/// not zero afterwards, and every reader refuses the message. Reads 4 bytes a value twice, the second time from the cache,
/// and 12 bytes more with an error.
template <class Codec>
  requires detail::BlockCodec<Codec> || detail::HalfCodec<Codec>
[[nodiscard]] result<void> encode(stream& s, const Codec& codec, const codec_source& from, std::size_t n,
                                  std::span<std::byte> room, std::uint32_t* found = nullptr) {
  CAUSEWAY_EXPECT(room.size() >= codec.encoded_size(n));
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    const half_encode_body<half> body{from, reinterpret_cast<half*>(room.data()), found};
    return elementwise(s, static_cast<std::int64_t>(n), body);
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const code_type code{codec.options()};
    const auto count = static_cast<std::int64_t>(n);
    const block_encode_body<code_type> body{from,  room.data(), room.data() + detail::scale_bytes(code, n),
                                            count, code,        found};
    return for_each_block(s, (count + code.block - 1) / code.block, body);
  }
}

/// Looks for what no encoder makes in bytes on the device: *found (there; zeroed by the caller) is then not zero. Ask
/// `verdict` for the error when the stream has been synchronized. The number of bytes is checked at once.
template <class Codec>
  requires detail::BlockCodec<Codec> || detail::HalfCodec<Codec>
[[nodiscard]] result<void> check_bytes(stream& s, const Codec& codec, std::span<const std::byte> bytes, std::size_t n,
                                       std::uint32_t* found) {
  if (bytes.size() != codec.encoded_size(n)) {
    return compress::detail::wrong_length(Codec::name, bytes.size(), codec.encoded_size(n));
  }
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    const half_check_body<half> body{reinterpret_cast<const half*>(bytes.data()), found};
    return elementwise(s, static_cast<std::int64_t>(n), body);
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const code_type code{codec.options()};
    const block_check_body<code_type> body{bytes.data(), bytes.data() + detail::scale_bytes(code, n),
                                           static_cast<std::int64_t>(n), code, found};
    return elementwise(s, detail::octets_of(n), body);
  }
}

/// What `found`, copied to the host, means.
[[nodiscard]] inline result<void> verdict(std::uint32_t found, std::string_view codec) {
  return compress::detail::to_result(found, codec, "bytes that break the format");
}

enum class decoded : bool { replaces, is_added };

/// to [n] = what the bytes decode to, or to + weight · that: the bits of the codec's decode and decode_add. The bytes, on
/// the device and aligned to 16, must have passed check_bytes.
template <class Codec>
  requires detail::BlockCodec<Codec> || detail::HalfCodec<Codec>
[[nodiscard]] result<void> decode(stream& s, const Codec& codec, std::span<const std::byte> bytes, float* to, std::size_t n,
                                  decoded how = decoded::replaces, float weight = 1.0F) {
  CAUSEWAY_EXPECT(bytes.size() == codec.encoded_size(n));
  const bool adds = how == decoded::is_added;
  if constexpr (detail::HalfCodec<Codec>) {
    using half = typename detail::wire_half<Codec>::type;
    const half_decode_body<half> body{reinterpret_cast<const half*>(bytes.data()), to, adds, weight};
    return elementwise(s, static_cast<std::int64_t>(n), body);
  } else {
    using code_type = typename detail::wire_code<Codec>::type;
    const code_type code{codec.options()};
    const block_decode_body<code_type> body{
        bytes.data(), bytes.data() + detail::scale_bytes(code, n), to, static_cast<std::int64_t>(n), code, adds, weight};
    return elementwise(s, detail::octets_of(n), body);
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_CODECS_CUH
