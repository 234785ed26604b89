// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_UNSOUND_STEPS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_UNSOUND_STEPS_HPP

// What a peer of elastic pipelines does when it comes to values that are not finite, though what it was sent is: it takes
// the blame. The membership has it sit out, and the others lay the pipelines out without it.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// errc::non_finite where the loss or the norm of the gradient is not finite: such a gradient goes into no sum.
CAUSEWAY_DECL [[nodiscard]] result<void> check_sound(double loss, float norm);

/// Of one peer. Thread safety: none.
class unsound_steps {
 public:
  /// The step came to values that are not finite, here, and so many of this peer's blocks are not finite and given up.
  /// errc::corrupt: an attempt without this peer may go through. errc::diverged: its blocks are sound, and it happened for
  /// the fourth time in this step, so it would to everybody.
  CAUSEWAY_DECL [[nodiscard]] error judge(std::uint64_t step, const error& why, std::size_t spoilt_blocks,
                                          const log_sink& log);

 private:
  static constexpr std::uint32_t most_times = 3;
  std::uint64_t step_ = 0;
  std::uint32_t times_ = 0;  // in that step, from sound parameters
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/unsound_steps.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_UNSOUND_STEPS_HPP
