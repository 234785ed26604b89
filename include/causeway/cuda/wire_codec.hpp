// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_WIRE_CODEC_HPP
#define CAUSEWAY_CUDA_WIRE_CODEC_HPP

// The codecs whose messages a device writes and reads.

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/config/config.hpp>

#include <type_traits>
#include <variant>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// One of them, with its options: what an engine is told.
using wire_codec = std::variant<compress::bf16, compress::fp16, compress::block_int8, compress::e3m0, compress::bits<1>,
                                compress::bits<2>, compress::bits<3>, compress::bits<4>, compress::bits<5>,
                                compress::bits<6>, compress::bits<7>, compress::bits<8>>;

template <class C>
concept WireCodec = std::is_constructible_v < wire_codec,
        std::in_place_type_t<C>,
const C& > ;

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_WIRE_CODEC_HPP
