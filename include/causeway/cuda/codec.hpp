// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_CODEC_HPP
#define CAUSEWAY_CUDA_CODEC_HPP

// A codec of compress/ whose rows may lie in a device's memory. What is there is encoded and decoded there, so that only
// encoded bytes cross to the host, where the network is; what lies on the host takes the CPU's way. Bytes and values are
// the same either way, so peers with and without a device share an exchange.

#include <causeway/compress/codec.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/wire_codec.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// Wraps a codec for an engine. In a mean over peers (collective::exchange_mean) the sum of a peer's own share is made on
/// the host, of the messages that came there: on the device it would take them all across the bus.
///
/// When the device fails, `encode` writes bytes that every reader refuses and `decode` gives the device's error; the engine
/// tells it to whoever asks it next to finish.
template <WireCodec Codec>
class codec {
 public:
  static constexpr std::string_view name = Codec::name;
  static constexpr compress::codec_traits traits = Codec::traits;
  static constexpr bool raw = false;

  codec() = default;  ///< no engine: the codec that it wraps
  explicit codec(std::shared_ptr<engine> e, Codec how = Codec{}) : engine_{std::move(e)}, how_{std::move(how)} {}

  [[nodiscard]] const Codec& wrapped() const noexcept { return how_; }
  [[nodiscard]] std::size_t block() const noexcept { return how_.block(); }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return how_.encoded_size(n); }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room) const {
    if (!there(values)) return how_.encode(pool, values, room);
    const std::size_t bytes = encoded_size(values.size());
    CAUSEWAY_EXPECT(room.size() >= bytes);
    if (!engine_->encode(how_, values.data(), values.size(), room.data())) {
      std::memset(room.data(), 0xFF, bytes);  // NaN as a scale or a value in every one of the formats
    }
    return bytes;
  }

  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values) const {
    if (!there(values)) return how_.decode(pool, bytes, values);
    return engine_->decode(how_, bytes, values.data(), values.size(), false, 1.0F);
  }
  result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight) const {
    if (!there(sum)) return how_.decode_add(pool, bytes, sum, weight);
    return engine_->decode(how_, bytes, sum.data(), sum.size(), true, weight);
  }

 private:
  [[nodiscard]] bool there(std::span<const float> values) const noexcept {
    return engine_ != nullptr && engine_->holds(values.data(), values.size_bytes());
  }

  std::shared_ptr<engine> engine_;
  Codec how_;
};
static_assert(compress::AddingCodec<codec<compress::block_int8>>);

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_CODEC_HPP
