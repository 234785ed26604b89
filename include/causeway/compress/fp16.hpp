// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_FP16_HPP
#define CAUSEWAY_COMPRESS_FP16_HPP

// Every value as IEEE half precision: 11 bits of precision between 6.1e-5 and 65504, which fits gradients of sane size.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/tensor/dtype.hpp>

#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// 2 n bytes, relative error at most 2^-11 for magnitudes of 6.1e-5 and more, absolute error at most 2^-25 below. Beyond
/// 65504 values become infinite, which decode refuses: scale them, or use bf16.
class fp16 : public detail::element_codec<fp16, causeway::f16> {
 public:
  static constexpr std::string_view name = "fp16";
  static constexpr codec_traits traits{.lossy = true};
};
static_assert(AddingCodec<fp16>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_FP16_HPP
