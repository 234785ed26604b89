// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP

// Sums of processes of one host in memory that they share. Each writes its values there once, adds all of its own part of
// them in the order of the ranks, and reads the whole sum: no message, and no value is copied twice in a row.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/shared_rings.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// How many pieces a rank has written, added its part of, and read; each on a line of its own, as the others look at it.
struct sum_progress {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> added{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock would be one process's own");

/// Where memory is that one process has made and others of its host may open: under /proc, with a mark at its end so that
/// no other memory is taken for it.
struct shared_place {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t mark = 0;
};

/// All ranks make equal sums in the same order, one at a time. One thread. Memory: 2 (n+1) pieces for all n together.
class shared_sum {
 public:
  static constexpr std::size_t piece = std::size_t{128} << 10U;  ///< bytes: those of all ranks stay in the caches
  static constexpr std::uint32_t most_ranks = 64;

  /// Memory that the first rank makes, and the others join while the first one has it. It ends with the last who has it.
  /// errc::out_of_memory: the host has no room for it. errc::io_failed: it is not to be had from here, on another host or
  /// in a container apart.
  CAUSEWAY_DECL [[nodiscard]] static result<std::unique_ptr<shared_sum>> make(std::uint32_t ranks, shared_place& place);
  CAUSEWAY_DECL [[nodiscard]] static result<std::unique_ptr<shared_sum>> join(std::uint32_t rank, std::uint32_t ranks,
                                                                              const shared_place& place);

  /// In `length(ranks)` bytes, all zero when the first rank comes.
  CAUSEWAY_DECL shared_sum(net::detail::shared_pages pages, std::uint32_t rank, std::uint32_t ranks);
  [[nodiscard]] static constexpr std::size_t length(std::uint32_t ranks) noexcept {
    return ranks * sizeof(sum_progress) + 2 * (ranks + std::size_t{1}) * piece;
  }

  /// data[i] = factor · Σ data[i] of all ranks, once `look` has said so. What is not finite stays so.
  CAUSEWAY_DECL void begin(std::span<float> data, float factor);
  /// Goes on as far as the others are; whether the sum is there. `moved`: whether anything was done.
  CAUSEWAY_DECL bool look(thread_pool& pool, bool& moved);
  [[nodiscard]] bool under_way() const noexcept { return !data_.empty(); }

 private:
  static constexpr std::size_t piece_values = piece / sizeof(float);
  /// Of all ranks together: up to here each adds everything by itself, and waits for the others once, not twice.
  static constexpr std::size_t most_by_each = std::size_t{128} << 10U;

  [[nodiscard]] float* slot(std::uint64_t number, std::uint32_t of) const noexcept {
    return slots_ + ((number % 2) * (ranks_ + std::size_t{1}) + of) * piece_values;
  }
  [[nodiscard]] float* sum_of(std::uint64_t number) const noexcept { return slot(number, ranks_); }
  [[nodiscard]] std::span<float> values_of(std::uint64_t number) const noexcept {
    const std::size_t at = static_cast<std::size_t>(number - first_) * piece_values;
    return data_.subspan(at, std::min(piece_values, data_.size() - at));
  }
  /// Whether all ranks are so far.
  CAUSEWAY_DECL bool all(std::atomic<std::uint64_t> sum_progress::*what, std::uint64_t number) const noexcept;
  CAUSEWAY_DECL bool write();
  CAUSEWAY_DECL bool add(thread_pool& pool);
  CAUSEWAY_DECL bool read();
  CAUSEWAY_DECL void add_range(thread_pool& pool, std::uint64_t number, std::size_t begin, std::size_t end,
                               float* to) const;

  net::detail::shared_pages pages_;
  sum_progress* progress_;
  float* slots_;
  std::uint32_t rank_, ranks_;
  std::span<float> data_{};
  float factor_ = 1.0F;
  bool by_each_ = false;
  std::uint64_t first_ = 0, end_ = 0;                 ///< the pieces of the sum under way, counted over all sums
  std::uint64_t written_ = 0, added_ = 0, read_ = 0;  ///< this rank's own
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/shared_sum.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP
