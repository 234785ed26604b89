// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_DISTINCT_CALLS_HPP
#define CAUSEWAY_TESTS_SUPPORT_DISTINCT_CALLS_HPP

// Which network calls of a simulated peer are one moment of its run to everybody else: between them it told nobody
// anything, wrote nothing, and nothing happened anywhere. Killed at any of them it leaves the same run, to the bit, so a
// sweep over all calls need try one. Killed by its own handler of an event, a peer still says what it says there.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_fabric.hpp"

namespace support {

class distinct_calls {
 public:
  /// Before each call: whether the peer's own thread makes it, which ends there when it is killed; how many events there
  /// were in the world, and writes on the peer's disk.
  void note(fabric_call call, bool in_thread, std::uint64_t events, std::uint64_t writes) {
    const bool same = !told_ && in_thread == in_thread_ && events == events_ && writes == writes_ && !of_call_.empty();
    of_call_.push_back(same ? of_call_.back() : of_call_.size());
    told_ = in_thread && (call == fabric_call::post || call == fabric_call::send);
    in_thread_ = in_thread, events_ = events, writes_ = writes;
  }
  [[nodiscard]] std::uint64_t count() const { return of_call_.size(); }
  /// The `by`th call after the `n`th, or the next one of another moment after that.
  [[nodiscard]] std::uint64_t after(std::uint64_t n, std::uint64_t by = 1) const {
    std::uint64_t next = n + by;
    while (next < of_call_.size() && of_call_[next] == of_call_[n]) ++next;
    return next;
  }

 private:
  std::vector<std::size_t> of_call_;  // the first call of its moment
  bool told_ = false, in_thread_ = false;
  std::uint64_t events_ = 0, writes_ = 0;
};

/// `history(n)`: of the run in which the peer is killed at call n. Gives how many of those calls a sweep leaves out.
template <class History>
std::uint64_t left_out(const distinct_calls& calls, std::uint64_t from, std::uint64_t to, History&& history) {
  std::uint64_t out = 0;
  for (std::uint64_t n = from; n < to; n = calls.after(n)) {
    for (std::uint64_t same = n + 1; same < calls.after(n) && same < to; ++same, ++out) {
      INFO("calls " << n << " and " << same);
      CHECK(history(same) == history(n));
    }
  }
  return out;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_DISTINCT_CALLS_HPP
