// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP
#define CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP

#include <causeway/net/shared_rings.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL result<shared_pages> shared_pages::make(std::size_t length) {
  owned_descriptor memory{::memfd_create("causeway", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (memory.get() < 0) return fail(errc::io_failed, "shared memory", "this system gives none (memfd_create)");
  // Whether the machine has so much is found out now, not by a signal when it is touched.
  if (::posix_fallocate(memory.get(), 0, static_cast<off_t>(length)) != 0) {
    return fail(errc::out_of_memory, "shared memory", "there is no room for " + std::to_string(length) + " bytes");
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(errc::io_failed, "shared memory", "its size cannot be sealed");
  }
  return map(std::move(memory), length);
}

CAUSEWAY_DECL result<shared_pages> shared_pages::map(owned_descriptor memory, std::size_t length) {
  void* const base = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) return fail(errc::out_of_memory, "shared memory", "it cannot be mapped");
  return shared_pages{std::move(memory), static_cast<std::byte*>(base), length};
}

CAUSEWAY_INLINE shared_pages::~shared_pages() {
  if (base_ != nullptr) (void)::munmap(base_, length_);
}

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free && std::atomic_ref<std::uint32_t>::is_always_lock_free,
              "a lock would be one process's own");

CAUSEWAY_DECL result<shared_rings> shared_rings::make(std::size_t ring_bytes) {
  CAUSEWAY_EXPECT(std::has_single_bit(ring_bytes) && ring_bytes >= least_ring && ring_bytes <= most_ring);
  CAUSEWAY_ASSIGN(shared_pages pages, shared_pages::make(length_of(ring_bytes)));
  return shared_rings{std::move(pages), ring_bytes, true};
}

CAUSEWAY_DECL result<shared_rings> shared_rings::join(owned_descriptor memory) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(errc::protocol, "shared memory", "what the other side handed over could shrink under us");
  }
  struct stat about {};
  if (::fstat(memory.get(), &about) != 0) return fail(errc::io_failed, "shared memory", "its size cannot be asked for");
  const auto length = static_cast<std::uint64_t>(about.st_size);
  const std::uint64_t ring = length > head_bytes ? (length - head_bytes) / 2 : 0;
  if (!std::has_single_bit(ring) || ring < least_ring || ring > most_ring || length_of(ring) != length) {
    return fail(errc::protocol, "shared memory", "what the other side handed over has an impossible size");
  }
  CAUSEWAY_ASSIGN(shared_pages pages, shared_pages::map(std::move(memory), length));
  pages.close_descriptor();
  return shared_rings{std::move(pages), ring, false};
}

CAUSEWAY_DECL ring_head& shared_rings::head(bool outgoing) const noexcept {
  return reinterpret_cast<ring_head*>(pages_.base())[outgoing == maker_ ? 0 : 1];
}

CAUSEWAY_DECL std::byte* shared_rings::bytes(bool outgoing) const noexcept {
  return pages_.base() + head_bytes + (outgoing == maker_ ? 0 : capacity_);
}

CAUSEWAY_DECL std::size_t shared_rings::used(std::uint64_t written, std::uint64_t read) noexcept {
  const std::uint64_t n = written - read;
  if (n > capacity_) broken_ = true;
  return broken_ ? 0 : static_cast<std::size_t>(n);
}

CAUSEWAY_DECL void shared_rings::copy_in(std::uint64_t at, std::span<const std::byte> from) noexcept {
  if (from.empty()) return;
  std::byte* const ring = bytes(true);
  const auto begin = static_cast<std::size_t>(at & (capacity_ - 1));
  const std::size_t upto_end = std::min(from.size(), capacity_ - begin);
  std::memcpy(ring + begin, from.data(), upto_end);
  if (upto_end < from.size()) std::memcpy(ring, from.data() + upto_end, from.size() - upto_end);
}

CAUSEWAY_DECL std::size_t shared_rings::write(std::span<const std::byte> first,
                                              std::span<const std::byte> second) noexcept {
  if (broken_) return 0;
  ring_head& out = head(true);
  const std::size_t filled = used(written_, std::atomic_ref{out.read}.load(std::memory_order_acquire));
  if (broken_) return 0;
  const std::size_t room = std::min(capacity_ - filled, piece_bytes);
  first = first.first(std::min(first.size(), room));
  second = second.first(std::min(second.size(), room - first.size()));
  copy_in(written_, first);
  copy_in(written_ + first.size(), second);
  const std::size_t n = first.size() + second.size();
  written_ += n;
  if (n == 0) return 0;
  wrote_ = true;
  std::atomic_ref{out.written}.store(written_, std::memory_order_seq_cst);
  return n;
}

CAUSEWAY_DECL std::size_t shared_rings::read(std::span<std::byte> to) noexcept {
  if (broken_) return 0;
  ring_head& in = head(false);
  const std::size_t there = used(std::atomic_ref{in.written}.load(std::memory_order_acquire), read_);
  const std::size_t n = std::min({there, to.size(), piece_bytes});
  if (n == 0) return 0;
  const std::byte* const ring = bytes(false);
  const auto begin = static_cast<std::size_t>(read_ & (capacity_ - 1));
  const std::size_t upto_end = std::min(n, capacity_ - begin);
  std::memcpy(to.data(), ring + begin, upto_end);
  if (upto_end < n) std::memcpy(to.data() + upto_end, ring, n - upto_end);
  read_ += n;
  filled_ = there - n;
  freed_ = true;
  std::atomic_ref{in.read}.store(read_, std::memory_order_seq_cst);
  return n;
}

CAUSEWAY_DECL bool shared_rings::sleep_until_readable() noexcept {
  ring_head& in = head(false);
  const std::atomic_ref sleeps{in.reader_sleeps};
  sleeps.store(1, std::memory_order_seq_cst);
  const bool empty = used(std::atomic_ref{in.written}.load(std::memory_order_seq_cst), read_) == 0 && !broken_;
  if (!empty) sleeps.store(0, std::memory_order_seq_cst);
  return empty;
}

CAUSEWAY_DECL bool shared_rings::sleep_until_writable() noexcept {
  ring_head& out = head(true);
  const std::atomic_ref sleeps{out.writer_sleeps};
  sleeps.store(1, std::memory_order_seq_cst);
  const std::size_t filled = used(written_, std::atomic_ref{out.read}.load(std::memory_order_seq_cst));
  const bool full = filled > capacity_ / 2 && !broken_;
  if (!full) sleeps.store(0, std::memory_order_seq_cst);
  return full;
}

CAUSEWAY_DECL bool shared_rings::must_wake() noexcept {
  const auto taken = [](std::uint32_t& flag) {
    const std::atomic_ref sleeps{flag};
    return sleeps.load(std::memory_order_seq_cst) != 0 && sleeps.exchange(0, std::memory_order_seq_cst) != 0;
  };
  const bool reader = std::exchange(wrote_, false) && taken(head(true).reader_sleeps);
  const bool writer = std::exchange(freed_, false) && filled_ <= capacity_ / 2 && taken(head(false).writer_sleeps);
  return reader || writer;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP
