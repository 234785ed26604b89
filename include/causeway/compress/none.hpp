// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_NONE_HPP
#define CAUSEWAY_COMPRESS_NONE_HPP

// The values as they are. Exact, four bytes each; there so that "no compression" is a codec like any other.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>

#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// 4 n bytes. Loses nothing.
class none : public detail::element_codec<none, float> {
 public:
  static constexpr std::string_view name = "none";
  static constexpr codec_traits traits{.lossy = false};
};
static_assert(AddingCodec<none>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_NONE_HPP
