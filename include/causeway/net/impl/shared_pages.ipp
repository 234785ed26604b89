// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_SHARED_PAGES_IPP
#define CAUSEWAY_NET_IMPL_SHARED_PAGES_IPP

// Bodies of net/shared_pages.hpp.

#include <causeway/net/shared_pages.hpp>

#include <fcntl.h>
#include <sys/mman.h>

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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_SHARED_PAGES_IPP
