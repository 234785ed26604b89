// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_TRANSFERS_HPP
#define CAUSEWAY_CUDA_OPS_TRANSFERS_HPP

// Messages between a queue and the host: rows stay in the queue's memory, and only encoded bytes cross.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/ops/codecs.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/cuda/wire_codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Values that are encoded, copied and handed on as one piece: large enough to fill a device and a bus, small enough that
/// most of a message's way overlaps.
inline constexpr std::size_t transfer_piece = std::size_t{1} << 20U;

namespace detail {

/// One message, encoded in pieces of whole blocks. Each has its scales and codes side by side on its way, and they part on
/// the host. A piece is a message of its own, so `seen` [n], unless null, = what a reader will see; it may be the source.
template <TransferQueue Q, WireCodec Codec>
class outward_message {
 public:
  outward_message(Q& queue, const Codec& codec, const codec_source& from, std::size_t n, std::byte* host, std::size_t piece,
                  float* seen)
      : queue_{queue},
        codec_{codec},
        from_{from},
        seen_{seen},
        n_{n},
        piece_{std::max(piece / codec.block(), std::size_t{1}) * codec.block()},
        stride_{(codec.encoded_size(piece_) + 255) / 256 * 256},
        scales_{host},
        codes_{host + scale_bytes(codec, n)} {}

  /// Piece i is encoded while i - 1 crosses and the host moves i - 2 to its place.
  result<void> run() {
    const std::size_t pieces = (n_ + piece_ - 1) / piece_;
    CAUSEWAY_ASSIGN(const auto room, queue_.template take<std::byte>(std::min(pieces, lanes) * stride_));
    for (std::size_t i = 0; i < pieces + lanes; ++i) {
      if (i >= lanes) CAUSEWAY_TRY(place(i - lanes));
      if (i < pieces) CAUSEWAY_TRY(start(i, room.data() + i % lanes * stride_));
    }
    return {};
  }

 private:
  static constexpr std::size_t lanes = 2;

  [[nodiscard]] std::size_t size(std::size_t i) const { return std::min(piece_, n_ - i * piece_); }

  result<void> start(std::size_t i, std::byte* room) {
    const std::size_t at = i * piece_, bytes = codec_.encoded_size(size(i));
    codec_source part = from_;
    part.x += at;
    if (part.error != nullptr) part.error += at;
    CAUSEWAY_TRY(cuda::encode(queue_, codec_, part, size(i), {room, bytes}));
    if (seen_ != nullptr) CAUSEWAY_TRY(decode(queue_, codec_, {room, bytes}, seen_ + at, size(i)));
    return queue_.begin_copy_out(static_cast<int>(i % lanes), room, bytes);
  }

  result<void> place(std::size_t i) {
    CAUSEWAY_ASSIGN(const std::byte* const arrived, queue_.end_copy_out(static_cast<int>(i % lanes)));
    const std::size_t bytes = codec_.encoded_size(size(i)), scales = scale_bytes(codec_, size(i));
    std::memcpy(scales_, arrived, scales);
    std::memcpy(codes_, arrived + scales, bytes - scales);
    scales_ += scales;
    codes_ += bytes - scales;
    return {};
  }

  Q& queue_;
  const Codec& codec_;
  codec_source from_;
  float* seen_;
  std::size_t n_, piece_, stride_;
  std::byte* scales_;  ///< where the next piece's go
  std::byte* codes_;
};

}  // namespace detail

/// host [codec.encoded_size(n)] = the message of a row in the queue's memory. Returns when it is there. `piece` is the
/// number of values of one copy. Unless null, seen [n] = what a reader will see, for values that are finite; it may be the
/// row.
template <TransferQueue Q, WireCodec Codec>
[[nodiscard]] result<void> encode_to_host(Q& queue, const Codec& codec, const codec_source& from, std::size_t n,
                                          std::byte* host, std::size_t piece = transfer_piece, float* seen = nullptr) {
  if (n == 0) return {};
  return detail::outward_message<Q, Codec>{queue, codec, from, n, host, piece, seen}.run();
}

/// host [bytes] = what lies in the queue's memory. Returns when it is there; the host moves one piece while the next
/// crosses.
template <TransferQueue Q>
[[nodiscard]] result<void> bytes_to_host(Q& queue, const void* from, std::size_t bytes, std::byte* host,
                                         std::size_t piece = 4 * transfer_piece) {
  const auto size = [&](std::size_t i) { return std::min(piece, bytes - i * piece); };
  const std::size_t pieces = (bytes + piece - 1) / piece;
  for (std::size_t i = 0; i < pieces + 1; ++i) {
    if (i < pieces) {
      const std::byte* const at = static_cast<const std::byte*>(from) + i * piece;
      CAUSEWAY_TRY(queue.begin_copy_out(static_cast<int>(i % 2), at, size(i)));
    }
    if (i == 0) continue;
    CAUSEWAY_ASSIGN(const std::byte* const arrived, queue.end_copy_out(static_cast<int>((i - 1) % 2)));
    std::memcpy(host + (i - 1) * piece, arrived, size(i - 1));
  }
  return {};
}

/// to [n], in the queue's memory, = what a message on the host decodes to, or to + weight · that, where *found, in the
/// queue's memory, is 0 and the check of the bytes leaves it so. codec.encoded_size(n) bytes that anybody may have sent.
template <TransferQueue Q, WireCodec Codec>
[[nodiscard]] result<void> values_from_host(Q& queue, const Codec& codec, std::span<const std::byte> host, float* to,
                                            std::size_t n, bool is_added, float weight, std::uint32_t* found) {
  CAUSEWAY_ASSIGN(const auto room, queue.template take<std::byte>(host.size()));
  const std::span<const std::byte> bytes{room.data(), host.size()};
  CAUSEWAY_TRY(queue.copy_in(room.data(), host.data(), host.size()));
  CAUSEWAY_TRY(check_bytes(queue, codec, bytes, n, found));
  return decode(queue, codec, bytes, to, n, {is_added, weight, found});
}

/// to [n], in the queue's memory, = what a message on the host decodes to, or to + weight · that. Bytes that anybody may
/// have sent, codec.encoded_size(n) of them: they are checked first, and `to` is unchanged unless 0 comes back; `verdict`
/// makes an error of it. Returns when all is done: one wait.
template <TransferQueue Q, WireCodec Codec>
[[nodiscard]] result<std::uint32_t> decode_from_host(Q& queue, const Codec& codec, std::span<const std::byte> host,
                                                     float* to, std::size_t n, bool is_added, float weight) {
  std::uint32_t found = 0;
  if (n == 0) return found;
  CAUSEWAY_ASSIGN(const auto word, queue.template take<std::uint32_t>(1));
  CAUSEWAY_TRY(queue.copy_in(word.data(), &found, sizeof found));
  CAUSEWAY_TRY(values_from_host(queue, codec, host, to, n, is_added, weight, word.data()));
  CAUSEWAY_TRY(queue.copy_out(&found, word.data(), sizeof found));
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_TRANSFERS_HPP
