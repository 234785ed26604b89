// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MEMORY_AS_IT_WAS_HPP
#define CAUSEWAY_COMM_MEMORY_AS_IT_WAS_HPP

// A copy of memory in several places, for who changes it, looks at what comes of that, and takes it back.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Memory as it is now, to be put back.
class memory_as_it_was {
 public:
  explicit memory_as_it_was(std::vector<std::span<std::byte>> parts) : parts_{std::move(parts)} {
    for (const auto part : parts_) bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  void put_back() const {
    auto from = bytes_.begin();
    for (const auto part : parts_) {
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    }
  }

 private:
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::byte> bytes_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_MEMORY_AS_IT_WAS_HPP
