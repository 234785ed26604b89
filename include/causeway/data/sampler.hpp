// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_SAMPLER_HPP
#define CAUSEWAY_DATA_SAMPLER_HPP

// Which window of the training tokens comes when. The order is a pure function of (seed, number of the sample since the
// start of the run), stored nowhere: every peer can compute every other peer's samples, and a run resumes from one integer.
// Each epoch visits every window exactly once, in another order.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// A seeded permutation of [0, size), computed, not stored: a Feistel network over the next even power of two, walked until
/// it lands inside (Black and Rogaway 2002). At most four network evaluations on average. A regular value.
class permutation {
 public:
  constexpr permutation() noexcept = default;

  constexpr permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) noexcept
      : size_{size}, half_bits_{(static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2} {
    CAUSEWAY_EXPECT(size > 0);
    for (std::uint64_t round = 0; round < rounds; ++round) keys_[round] = mix(seed, stream, round);
  }

  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return size_; }

  /// Where `index` goes; `index` must be below size().
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t index) const noexcept {
    CAUSEWAY_EXPECT(index < size_);
    do {
      index = network(index);
    } while (index >= size_);  // ends: the walk stays on the cycle of a bijection, which contains the start
    return index;
  }

 private:
  static constexpr std::size_t rounds = 6;

  [[nodiscard]] constexpr std::uint64_t network(std::uint64_t x) const noexcept {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_;
    std::uint64_t right = x & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ (causeway::detail::scramble(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t size_ = 1;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, rounds> keys_{};
};

/// One training window: tokens [first, first + T) are inputs, [first + 1, first + T + 1) their targets.
struct sample {
  std::uint64_t epoch = 0;
  std::int64_t window = 0;  ///< its number on the epoch's grid
  std::int64_t first = 0;   ///< its first token

  friend constexpr bool operator==(const sample&, const sample&) = default;
};

struct sampler_options {
  std::int64_t context_length = 0;  ///< T
  std::uint64_t seed = 1;           ///< equal on all peers of a run
  /// Shifts the grid of windows by a random 0..T-1 tokens each epoch, so that windows are not always cut at the same
  /// places. Leaves out up to T tokens of an epoch (other ones each time); done only from 64 windows on.
  bool shift_grid = true;
  /// Only these windows of the grid, each once: the documents of a shard. Empty: all. They need `shift_grid` false, since a
  /// shifted window is no document any more.
  std::vector<std::uint32_t> only{};
};

/// Maps the n-th sample of a run to a window. Thread-safe: sample_at changes nothing.
class sampler {
 public:
  /// errc::bad_text if there is not a single window of T + 1 tokens; errc::invalid_argument where `only` names others than
  /// there are, or goes with a shifted grid.
  CAUSEWAY_DECL static result<sampler> make(std::int64_t tokens, const sampler_options& options);

  /// Windows per epoch, the same in every epoch.
  [[nodiscard]] std::int64_t windows() const noexcept { return windows_; }
  [[nodiscard]] std::int64_t context_length() const noexcept { return options_.context_length; }

  /// The n-th sample of the run, all peers together.
  CAUSEWAY_DECL [[nodiscard]] sample sample_at(std::uint64_t n) const noexcept;

  /// First token of the grid in an epoch.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t offset_of(std::uint64_t epoch) const noexcept;

  /// Equal on peers that draw the same samples.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t hash() const noexcept;

 private:
  static constexpr std::uint64_t order_stream = 0x6F72646572;  // "order"
  static constexpr std::uint64_t shift_stream = 0x7368696674;  // "shift"

  CAUSEWAY_DECL sampler(std::int64_t tokens, const sampler_options& options);

  sampler_options options_;
  std::int64_t tokens_ = 0;
  std::int64_t windows_ = 0;
  bool shifted_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/sampler.ipp>
#endif

#endif  // CAUSEWAY_DATA_SAMPLER_HPP
