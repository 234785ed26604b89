// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BF16_HPP
#define CAUSEWAY_COMPRESS_BF16_HPP

// Every value as bfloat16: the range of f32 with 8 bits of precision.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/tensor/dtype.hpp>

#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// 2 n bytes, relative error at most 2^-8 (values below 2^-126: absolute error at most 2^-134). Values that round beyond
/// the largest bf16, 3.39e38, become infinite, which decode refuses.
class bf16 : public detail::element_codec<bf16, causeway::bf16> {
 public:
  static constexpr std::string_view name = "bf16";
  static constexpr codec_traits traits{.lossy = true};
};
static_assert(AddingCodec<bf16>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_BF16_HPP
