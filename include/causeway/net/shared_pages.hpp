// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_SHARED_PAGES_HPP
#define CAUSEWAY_NET_SHARED_PAGES_HPP

// Memory that processes of one host share: it has no name, and ends with the last who has it.

#include <causeway/core/result.hpp>
#include <causeway/net/descriptors.hpp>

#include <cstddef>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

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
  void close_descriptor() noexcept { descriptor_.close(); }

 private:
  shared_pages(owned_descriptor memory, std::byte* base, std::size_t length) noexcept
      : descriptor_{std::move(memory)}, base_{base}, length_{length} {}

  owned_descriptor descriptor_;
  std::byte* base_;
  std::size_t length_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/shared_pages.ipp>
#endif

#endif  // CAUSEWAY_NET_SHARED_PAGES_HPP
