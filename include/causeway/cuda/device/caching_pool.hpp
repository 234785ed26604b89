// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_CACHING_POOL_HPP
#define CAUSEWAY_CUDA_DEVICE_CACHING_POOL_HPP

// Which piece of memory a request gets: the bookkeeping of the device's arena, which knows nothing of CUDA and so is tested
// on any machine. Requests are rounded up to a few sizes, pieces that come back wait in a list per size, and a step that
// asks for what an earlier one asked for reserves nothing. Memory is never split or joined, so it cannot fragment.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Where a pool gets memory from. `release` takes what `reserve` gave, and waits until the device is done with it.
template <class S>
concept MemorySource = Movable<S> && requires(S& s, std::size_t bytes, void* piece) {
  { s.reserve(bytes) } -> std::same_as<result<void*>>;
  s.release(piece);
};

/// What a request for `bytes` takes: multiples of 512 up to 4 KiB, then four sizes to each doubling, so that at most a
/// fifth of a large piece is unused. `bytes` must be at most 2^62.
constexpr std::size_t size_class(std::size_t bytes) noexcept {
  const std::size_t step = bytes <= 4096 ? 512 : std::bit_floor(bytes - 1) / 4;
  return bytes == 0 ? 512 : (bytes + step - 1) / step * step;
}

/// A cache of pieces. Not safe to share between threads. A piece that is given back may be taken again at once: whoever
/// uses it next must do so after the former user's work, which holds when both use one stream.
template <MemorySource Source>
class caching_pool {
 public:
  explicit caching_pool(Source source) : source_{std::move(source)} {}

  caching_pool(caching_pool&& other) noexcept
      : source_{std::move(other.source_)},
        free_{std::exchange(other.free_, {})},
        held_{std::exchange(other.held_, 0)},
        taken_{std::exchange(other.taken_, 0)},
        reservations_{other.reservations_} {}
  caching_pool& operator=(caching_pool&&) = delete;
  ~caching_pool() { trim(); }

  /// A piece of size_class(bytes) bytes. When the source has no more, gives back to it what waits here and tries again.
  [[nodiscard]] result<void*> take(std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    if (const auto waiting = free_.find(size); waiting != free_.end() && !waiting->second.empty()) {
      void* const piece = waiting->second.back();
      waiting->second.pop_back();
      taken_ += size;
      return piece;
    }
    auto piece = reserve(size);
    if (!piece) return piece;
    ++reservations_;
    held_ += size;
    taken_ += size;
    return piece;
  }

  /// Gives back what take(bytes) gave.
  void give(void* piece, std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    CAUSEWAY_EXPECT(piece != nullptr && taken_ >= size);
    taken_ -= size;
    free_[size].push_back(piece);
  }

  /// Returns to the source all pieces that nobody holds.
  void trim() {
    for (auto& [size, pieces] : free_) {
      for (void* piece : pieces) source_.release(piece);
      held_ -= size * pieces.size();
      pieces.clear();
    }
  }

  [[nodiscard]] std::size_t held() const noexcept { return held_; }    ///< bytes reserved from the source
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }  ///< bytes of these that are in use
  /// How often the source was asked with success: constant over a steady step.
  [[nodiscard]] std::size_t reservations() const noexcept { return reservations_; }

 private:
  result<void*> reserve(std::size_t size) {
    auto piece = source_.reserve(size);
    if (piece || piece.error().code != errc::out_of_memory || held_ == taken_) return piece;
    trim();
    return source_.reserve(size);
  }

  Source source_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::size_t held_ = 0;
  std::size_t taken_ = 0;
  std::size_t reservations_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_CACHING_POOL_HPP
