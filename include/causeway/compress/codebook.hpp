// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_CODEBOOK_HPP
#define CAUSEWAY_COMPRESS_CODEBOOK_HPP

// Few bits a value, and a codebook of bucket means (bucket_means.hpp) for all values of a row, or of each of its tensors:
// what SparseLoCo makes of the values that it keeps. On the wire: the codebook, then the packed codes.

#include <causeway/compress/bucket_means.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct codebook_options {
  float range_in_deviations = 6.0F;  ///< width of all buckets together, in standard deviations: 1 to 64

  void serialize(auto& ar) { ar(range_in_deviations); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const codebook_options& o) {
  if (o.range_in_deviations >= 1.0F && o.range_in_deviations <= 64.0F) return {};
  return fail(errc::invalid_argument, "codebook", "the range must be 1 to 64 standard deviations");
}

/// 4 · 2^Bits + ceil(Bits · n / 8) bytes for n values (16 and a quarter of a byte each, for two bits); nothing for none.
///
/// With m and s the mean and the standard deviation (n - 1 in the denominator) of the values, and w = range · s / 2^Bits,
/// bucket c holds the values nearest to m + (c - 2^Bits / 2) · w, and the outermost ones also all beyond; each value
/// decodes to the mean of its bucket. Two bits and the default range thus make buckets about m - 3s, m - 1.5s, m and m
/// + 1.5s (SparseLoCo: Sarfi et al. 2025, section 4; the arithmetic is that of Templar's quantiser). What is lost is
/// orthogonal to what is sent, so |x - decoded| is less than |x| unless all bucket means are 0: error feedback contracts
/// for every input. Equal values are exact, and so are zeros.
///
/// A mixture of scales has one standard deviation, that of the large ones, and loses the small ones. So sparse messages
/// encode each tensor's values apart (`traits.per_tensor`).
///
/// Refused by decode like infinite values: squared deviations that add up to more than 3.4e38. Time: one pass for mean
/// and squares, one for the codes, on the caller's thread.
template <unsigned Bits>
class codebook : public detail::decodes_to_sink<codebook<Bits>> {
 public:
  static_assert(Bits >= 2 && Bits <= 8);
  static constexpr std::string_view name =
      std::string_view{"codebook2codebook3codebook4codebook5codebook6codebook7codebook8"}.substr(9 * (Bits - 2), 9);
  static constexpr codec_traits traits{.lossy = true, .per_block = true, .per_tensor = true};
  static constexpr bool raw = false;

  explicit codebook(const codebook_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  /// All values share the codebook: rows are shorter than this.
  [[nodiscard]] std::size_t block() const noexcept { return std::size_t{1} << 32U; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept {
    return n == 0 ? 0 : head + detail::packed_size(n, Bits);
  }
  [[nodiscard]] const codebook_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool&, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    if (!values.empty()) {
      kernels::detail::dispatch<detail::encode_buckets<Bits>>(level, values.data(), room.data(), room.data() + head,
                                                              static_cast<std::int64_t>(values.size()),
                                                              options_.range_in_deviations, std::int64_t{0});
    }
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<codebook<Bits>>;
  static constexpr std::size_t head = detail::codebook_of<Bits>::bytes;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(to.size()));
    }
    if (to.empty()) return {};
    CAUSEWAY_TRY(detail::check_codebook<Bits>(bytes, to.size(), name));
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(to.size()), [&](index_range r) {
      kernels::detail::dispatch<detail::decode_buckets<Bits, Sink>>(
          level, bytes.data(), bytes.data() + head + r.begin / 8 * Bits, to.data() + r.begin, r.size(), sink);
    });
    return {};
  }

  codebook_options options_;
};
static_assert(AddingCodec<codebook<2>>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CODEBOOK_HPP
