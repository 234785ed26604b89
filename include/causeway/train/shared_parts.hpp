// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SHARED_PARTS_HPP
#define CAUSEWAY_TRAIN_SHARED_PARTS_HPP

// An archive that copies nothing: it notes where the state lies that a `serialize` or `shared` member names.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::detail {

/// Takes numbers, enumerations, vectors of them, anything with `serialize`, and memory through `view`. What is named must
/// stay where it is while the parts are in use: members of the policy, not locals, and vectors that do not grow.
class shared_parts {
 public:
  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

  template <class T>
  void view(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!values.empty()) parts_.push_back(std::as_writable_bytes(values));
  }

  [[nodiscard]] std::vector<std::span<std::byte>> take() { return std::move(parts_); }

 private:
  template <class T>
  void visit(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      view(std::span{&value, 1});
    } else {
      value.serialize(*this);
    }
  }

  template <class T>
  void visit(std::vector<T>& values) {
    view(std::span{values});
  }

  std::vector<std::span<std::byte>> parts_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_SHARED_PARTS_HPP
