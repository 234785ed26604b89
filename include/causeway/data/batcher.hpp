// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_BATCHER_HPP
#define CAUSEWAY_DATA_BATCHER_HPP

// Batches for training and for validation. The global batch of a step depends on the seed and on how many samples the run
// has used, not on how many peers share it: peer p of n takes its contiguous part. The whole state is one integer.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

// Which window of the training tokens comes when. The order is a pure function of (seed, number of the sample since the
// start of the run), stored nowhere: every peer can compute every other peer's samples, and a run resumes from one integer.
// Each epoch visits every window exactly once, in another order.

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

/// Sequences [begin, end) of a global batch of `sequences` that peer `peer` of `peers` takes: p*b to (p+1)*b where b =
/// sequences / peers is whole; otherwise parts differ by one.
constexpr index_range part_of_batch(std::int64_t sequences, std::uint32_t peer, std::uint32_t peers) noexcept {
  return share_of(sequences, peer, peers);
}

/// Fills [B, T] inputs and targets. The spans of a batch stay valid until the next call. Not safe to share between threads.
class batcher {
 public:
  /// `global_batch`: sequences per step, all peers together. Errors: errc::bad_text (too few tokens),
  /// errc::invalid_argument.
  CAUSEWAY_DECL static result<batcher> make(token_stream tokens, const sampler_options& options, std::int64_t global_batch);

  /// This peer's part of the current step's batch; does not advance. A retried step gets the same batch.
  CAUSEWAY_DECL batch current(std::uint32_t peer = 0, std::uint32_t peers = 1);

  /// Goes on to the next step, on every peer alike.
  void advance() noexcept { cursor_ += static_cast<std::uint64_t>(global_batch_); }

  /// `current`, then `advance`.
  CAUSEWAY_DECL batch next(std::uint32_t peer = 0, std::uint32_t peers = 1);

  /// Samples [first, first + sequences) of the run, also across the end of an epoch.
  CAUSEWAY_DECL batch at(std::uint64_t first, std::int64_t sequences);

  /// The samples with these numbers, in this order: what a trainer's `draw` gives.
  CAUSEWAY_DECL batch of(std::span<const std::uint64_t> numbers);

  /// Samples that the run has used, all peers together: the position in the data.
  [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }
  void seek(std::uint64_t cursor) noexcept { cursor_ = cursor; }
  /// How often the run has seen the data, as a fraction.
  CAUSEWAY_DECL [[nodiscard]] double epochs() const noexcept;

  [[nodiscard]] const sampler& order() const noexcept { return order_; }
  [[nodiscard]] const token_stream& tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t global_batch() const noexcept { return global_batch_; }
  /// Takes effect with the current step; the position stays.
  CAUSEWAY_DECL void set_global_batch(std::int64_t sequences) noexcept;

  /// The position only: tokens, seed and sizes come from the program.
  static constexpr std::uint32_t state_version = 1;
  void serialize(auto& ar) { ar(cursor_); }

 private:
  CAUSEWAY_DECL batcher(token_stream tokens, const sampler& order, std::int64_t global_batch);

  template <class Number>
  batch fill(std::int64_t sequences, Number&& number) {
    const auto length = static_cast<std::size_t>(order_.context_length());
    window_.resize(length + 1);
    inputs_.resize(static_cast<std::size_t>(sequences) * length);
    targets_.resize(inputs_.size());
    samples_.resize(static_cast<std::size_t>(sequences));
    for (std::size_t i = 0; i < static_cast<std::size_t>(sequences); ++i) {
      const std::int64_t first = order_.sample_at(number(i)).first;
      tokens_.read(first, window_);
      samples_[i] = static_cast<std::uint64_t>(first);  // with a shifted grid, windows hardly ever come again
      std::copy_n(window_.data(), length, inputs_.data() + i * length);
      std::copy_n(window_.data() + 1, length, targets_.data() + i * length);
    }
    return {inputs_, targets_, sequences, samples_};
  }

  token_stream tokens_;
  sampler order_;
  std::int64_t global_batch_;
  std::uint64_t cursor_ = 0;
  std::vector<std::int32_t> window_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
  std::vector<std::uint64_t> samples_;
};

/// A fixed set of windows for validation: the same in every run, spread evenly over the tokens, not overlapping. Spans stay
/// valid until the next call. Not safe to share between threads.
class validation_windows {
 public:
  /// At most `limit` windows of T tokens; all of them if there are fewer. errc::bad_text if there is none.
  CAUSEWAY_DECL static result<validation_windows> make(token_stream tokens, std::int64_t context_length,
                                                       std::int64_t limit);

  /// Number of windows.
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }

  /// First token of window `index`.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t first_token(std::int64_t index) const noexcept;

  /// Windows [first, first + count), which must exist.
  CAUSEWAY_DECL batch at(std::int64_t first, std::int64_t count);

 private:
  CAUSEWAY_DECL validation_windows(token_stream tokens, std::int64_t length, std::int64_t count, std::int64_t available);

  token_stream tokens_;
  std::int64_t length_;
  std::int64_t count_;
  std::int64_t available_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/batcher.ipp>
#endif

#endif  // CAUSEWAY_DATA_BATCHER_HPP
