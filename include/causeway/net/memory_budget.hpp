// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MEMORY_BUDGET_HPP
#define CAUSEWAY_NET_MEMORY_BUDGET_HPP

// How much all links of one engine together keep in memory for a purpose. A limit for each link does not bound the sum:
// strangers can make as many links as they like.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Not thread-safe: the transport locks.
class memory_budget {
 public:
  explicit memory_budget(std::size_t limit = SIZE_MAX) : limit_{limit} {}

  void take(std::size_t bytes) noexcept { used_ += bytes; }
  void give(std::size_t bytes) noexcept { used_ -= bytes; }

  /// `more` bytes would go beyond `times` the limit.
  [[nodiscard]] bool exceeded(std::size_t more, std::size_t times = 1) const noexcept {
    return (used_ + more) / times > limit_;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_MEMORY_BUDGET_HPP
