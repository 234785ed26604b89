// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_SHARED_RINGS_HPP
#define CAUSEWAY_NET_SHARED_RINGS_HPP

// Two ring buffers in memory that two processes share, one for each direction: bytes in, the same bytes out. Linux only
// (memfd). The other process may be defect or torn: its counters are read once and checked, and nothing else of the shared
// memory decides anything. Who sleeps and who must be woken is said here; waking is for whoever owns it.
// docs/design/shared_memory.md says why it is as it is.

#include <causeway/config/config.hpp>
#include <causeway/core/owned_descriptor.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// Memory that processes of one host share: it has no name, and ends with the last who has it.

/// A mapping, and the descriptor by which others get it.
class shared_pages {
 public:
  /// All zero, and sealed, so that nobody makes it smaller. Its pages are allocated here: errc::out_of_memory where the
  /// machine has none to spare.
  CAUSEWAY_DECL static result<shared_pages> make(std::size_t length);

  /// What another process made, `length` bytes of it.
  CAUSEWAY_DECL static result<shared_pages> map(owned_descriptor memory, std::size_t length);

  shared_pages(shared_pages&& other) noexcept
      : descriptor_{std::move(other.descriptor_)}, base_{std::exchange(other.base_, nullptr)}, length_{other.length_} {}
  shared_pages& operator=(shared_pages&&) = delete;
  ~shared_pages();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const owned_descriptor& descriptor() const noexcept { return descriptor_; }
  /// The mapping is enough from now on.
  void close_descriptor() noexcept { (void)descriptor_.close(); }

 private:
  shared_pages(owned_descriptor memory, std::byte* base, std::size_t length) noexcept
      : descriptor_{std::move(memory)}, base_{base}, length_{length} {}

  owned_descriptor descriptor_;
  std::byte* base_;
  std::size_t length_;
};

/// The head of the shared memory, one for each ring. Each counter is written by one side alone and only grows.
struct ring_head {
  alignas(64) std::uint64_t written;        ///< bytes, by the writer
  alignas(64) std::uint64_t read;           ///< bytes, by the reader
  alignas(64) std::uint32_t reader_sleeps;  ///< set by the reader, taken by the writer
  alignas(64) std::uint32_t writer_sleeps;  ///< set by the writer, taken by the reader
};

/// One side's view. Not thread-safe: calls of one side come one at a time; the two sides are on their own.
class shared_rings {
 public:
  static constexpr std::size_t least_ring = std::size_t{64} << 10U;
  static constexpr std::size_t most_ring = std::size_t{64} << 20U;
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10U;  ///< moved at most between two looks at the counters

  /// Makes the memory, with two rings of `ring_bytes` each, a power of two between the limits. Its pages are allocated
  /// here: errc::out_of_memory where the machine has none to spare.
  CAUSEWAY_DECL static result<shared_rings> make(std::size_t ring_bytes);

  /// Takes part in the memory that another process made and whose descriptor it handed to us. errc::protocol where it could
  /// shrink under us, or is no memory of ours.
  CAUSEWAY_DECL static result<shared_rings> join(owned_descriptor memory);

  /// Of a ring.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// What the other process is given.
  [[nodiscard]] const owned_descriptor& memory() const noexcept { return pages_.descriptor(); }
  /// The mapping is enough from now on.
  void close_descriptor() noexcept { pages_.close_descriptor(); }

  /// Copies as much of `first` and then of `second` as there is room for, at most a piece; the number of bytes.
  CAUSEWAY_DECL std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second = {}) noexcept;

  /// Copies as much as there is, at most a piece, out to `to`; the number of bytes.
  CAUSEWAY_DECL std::size_t read(std::span<std::byte> to) noexcept;

  /// Says that this side waits for something to read. False when there is something already.
  CAUSEWAY_DECL bool sleep_until_readable() noexcept;

  /// Says that this side waits until half of its ring is free. False when it is already.
  CAUSEWAY_DECL bool sleep_until_writable() noexcept;

  /// After a write or a read: whether the other side sleeps and has something to do now. Said once for each sleep.
  CAUSEWAY_DECL [[nodiscard]] bool must_wake() noexcept;

  /// The other side's counters cannot be: nothing is read or written any more.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  shared_rings(shared_pages pages, std::size_t capacity, bool maker) noexcept
      : pages_{std::move(pages)}, capacity_{capacity}, maker_{maker} {}

  static constexpr std::size_t head_bytes = 4096;  // of both rings; the rings follow

  static std::size_t length_of(std::size_t ring_bytes) noexcept { return head_bytes + 2 * ring_bytes; }

  CAUSEWAY_DECL [[nodiscard]] ring_head& head(bool outgoing) const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::byte* bytes(bool outgoing) const noexcept;

  /// Bytes in a ring by its two counters; more than fit: it is broken.
  CAUSEWAY_DECL std::size_t used(std::uint64_t written, std::uint64_t read) noexcept;

  CAUSEWAY_DECL void copy_in(std::uint64_t at, std::span<const std::byte> from) noexcept;

  shared_pages pages_;
  std::size_t capacity_;
  bool maker_;                 // writes the first ring
  std::uint64_t written_ = 0;  // ours: what the shared memory says of it is never read
  std::uint64_t read_ = 0;
  std::size_t filled_ = 0;  // bytes that the last read left in the incoming ring
  bool wrote_ = false;      // since the last look at who sleeps
  bool freed_ = false;
  bool broken_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/shared_rings.ipp>
#endif

#endif  // CAUSEWAY_NET_SHARED_RINGS_HPP
