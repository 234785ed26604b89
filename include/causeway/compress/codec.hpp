// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_CODEC_HPP
#define CAUSEWAY_COMPRESS_CODEC_HPP

// How a row of f32 values becomes bytes and values again. A codec is a small value without state: what it gives depends on
// its options and its input alone, to the bit, whatever the thread count or the instruction set. All numbers on the wire
// are little-endian.

#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

static_assert(std::endian::native == std::endian::little, "codecs write numbers as they lie in memory");

/// What a codec says about itself, for rules that decide which combinations are allowed.
struct codec_traits {
  bool lossy = true;            ///< decode(encode(x)) may differ from x: feed the residual back, or lose it
  bool per_block = false;       ///< values share a scale with their neighbours, so blocks must not be cut
  bool per_tensor = false;      ///< all values share what they are counted from: encode each tensor's apart
  bool sparse = false;          ///< a message may leave values out (messages only, see message.hpp; so the next two)
  bool chosen_is_sent = false;  ///< of a quantiser: a value counts as sent as it is, whatever it decodes to
  bool shared_support = false;  ///< all peers' messages of one exchange have the same coordinates
  bool transform = false;       ///< messages decode to coefficients, and `inverse` makes values of them
};

/// Requirements. `n` values need exactly `encoded_size(n)` bytes.
///
/// - `encode(pool, values, room)` writes them to the front of `room` and gives their number. It rejects nothing: NaN and
///   infinity are encoded so that `decode` refuses them.
/// - `decode(pool, bytes, values)` reads bytes that anybody may have sent: errc::protocol when their number is wrong,
///   errc::non_finite when a value would not be finite, errc::corrupt for other bytes that no encoder makes. After an error
///   `values` are unspecified.
/// - `block()`: values may be cut at multiples of it, and encoded apart, without changing what they decode to.
/// - `raw`: the bytes are the values.
template <class C>
concept Codec = Copyable<C> &&
    requires(const C& c, thread_pool& pool, std::size_t n, std::span<const float> values, std::span<std::byte> room,
             std::span<const std::byte> bytes, std::span<float> decoded) {
  { C::name } -> ConvertibleTo<std::string_view>;
  { C::traits } -> ConvertibleTo<codec_traits>;
  {bool{C::raw}};
  { c.block() } -> std::same_as<std::size_t>;
  { c.encoded_size(n) } -> std::same_as<std::size_t>;
  { c.encode(pool, values, room) } -> std::same_as<std::size_t>;
  { c.decode(pool, bytes, decoded) } -> std::same_as<result<void>>;
};

/// A codec that can add what it decodes, which saves the sum of an exchange a pass over memory:
/// `decode_add(pool, bytes, sum, weight)` makes each sum[i] the rounded sum[i] + round(weight · decoded[i]), the bits that
/// decode and a separate multiplication and addition give. The bytes are checked, as decode checks them, before anything
/// is added: after an error `sum` is unchanged. A sum that overflows is no error here.
template <class C>
concept AddingCodec = Codec<C> &&
    requires(const C& c, thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  { c.decode_add(pool, bytes, sum, weight) } -> std::same_as<result<void>>;
};

namespace detail {

inline error wrong_length(std::string_view codec, std::size_t got, std::size_t expected) {
  return fail(errc::protocol, std::string{codec},
              std::to_string(got) + " bytes where " + std::to_string(expected) +
                  " encode the values; do both sides use the same codec and options?");
}

inline error not_finite(std::string_view codec) {
  return fail(errc::non_finite, std::string{codec},
              "the bytes decode to NaN or infinity; the sender's values are unusable");
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CODEC_HPP
