// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_CODEC_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_CODEC_HPP

// A codec chosen at run time, so that the program needs no trainer type per codec.

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/compress/sign.hpp>

#include <string_view>
#include <variant>

namespace app {

class chosen_codec {
 public:
  static constexpr std::string_view name = "chosen";
  static constexpr causeway::compress::codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit chosen_codec(std::string_view which = "fp16") {
    if (which == "bf16") codec_ = causeway::compress::bf16{};
    if (which == "int8") codec_ = causeway::compress::block_int8{};
    if (which == "dynamic_int8") codec_ = causeway::compress::dynamic_int8{};
    if (which == "sigma_int8") codec_ = causeway::compress::sigma_int8{};
    if (which == "e3m0") codec_ = causeway::compress::e3m0{};
    if (which == "int4") codec_ = causeway::compress::bits<4>{};
    if (which == "int2") codec_ = causeway::compress::bits<2>{};
    if (which == "sign") codec_ = causeway::compress::sign{};
  }

  std::size_t block() const {
    return std::visit([](const auto& c) { return c.block(); }, codec_);
  }
  std::size_t encoded_size(std::size_t n) const {
    return std::visit([n](const auto& c) { return c.encoded_size(n); }, codec_);
  }
  std::size_t encode(causeway::thread_pool& pool, std::span<const float> values, std::span<std::byte> room) const {
    return std::visit([&](const auto& c) { return c.encode(pool, values, room); }, codec_);
  }
  causeway::result<void> decode(causeway::thread_pool& pool, std::span<const std::byte> bytes,
                                std::span<float> values) const {
    return std::visit([&](const auto& c) { return c.decode(pool, bytes, values); }, codec_);
  }

 private:
  std::variant<causeway::compress::fp16, causeway::compress::bf16, causeway::compress::block_int8,
               causeway::compress::dynamic_int8, causeway::compress::sigma_int8, causeway::compress::e3m0,
               causeway::compress::bits<4>, causeway::compress::bits<2>, causeway::compress::sign>
      codec_;
};
static_assert(causeway::compress::Codec<chosen_codec>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_CODEC_HPP
