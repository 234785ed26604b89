// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_SCOPED_OPERATION_HPP
#define CAUSEWAY_NET_SCOPED_OPERATION_HPP

// A send or receive that cannot outlive its buffer: what is still under way when this object goes, is cancelled. Keep it
// with the buffer, declared below it, so that it goes first.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// One operation, or none. `on`, which it was started on, is a Transport or a fabric; it must stay where it is, and outlive
/// the operation. Not thread-safe.
class scoped_operation {
 public:
  scoped_operation() = default;
  template <class T>
  scoped_operation(T& on, operation op) : on_{&on}, ways_{&ways_of<T>}, op_{op} {}
  scoped_operation(scoped_operation&& other) noexcept
      : on_{other.on_}, ways_{other.ways_}, op_{std::exchange(other.op_, 0)} {}
  scoped_operation& operator=(scoped_operation&& other) noexcept {
    if (this == &other) return *this;
    cancel();
    on_ = other.on_;
    ways_ = other.ways_;
    op_ = std::exchange(other.op_, 0);
    return *this;
  }
  ~scoped_operation() { cancel(); }

  /// Whether there is one that was not waited for.
  [[nodiscard]] bool started() const noexcept { return op_ != 0; }
  /// 0 where there is none.
  [[nodiscard]] operation number() const noexcept { return op_; }
  /// Whether `wait` would return at once.
  [[nodiscard]] bool done() const { return op_ == 0 || ways_->done(on_, op_); }
  /// Bytes moved; 0 where there is none. Afterwards there is none: what takes longer is cancelled.
  result<std::size_t> wait(time_point deadline) {
    if (op_ == 0) return std::size_t{0};
    return ways_->wait(on_, std::exchange(op_, 0), deadline);
  }
  void cancel() {
    if (op_ != 0) (void)wait(time_point{});  // in the past
  }

 private:
  struct ways {
    result<std::size_t> (*wait)(void* on, operation op, time_point deadline);
    bool (*done)(void* on, operation op);
  };
  template <class T>
  static constexpr ways ways_of{
      [](void* on, operation op, time_point deadline) { return static_cast<T*>(on)->wait(op, deadline); },
      [](void* on, operation op) { return static_cast<const T*>(on)->done(op); }};

  void* on_ = nullptr;
  const ways* ways_ = nullptr;
  operation op_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_SCOPED_OPERATION_HPP
