// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_UNSOUND_STEPS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_UNSOUND_STEPS_IPP

#include <causeway/parallel/elastic/unsound_steps.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> check_sound(double loss, float norm) {
  if (std::isfinite(loss) && std::isfinite(norm)) return {};
  return fail(errc::non_finite, "this stage", "its loss or gradient is not finite");
}

CAUSEWAY_DECL error unsound_steps::judge(std::uint64_t step, const error& why, std::size_t spoilt_blocks,
                                         const log_sink& log) {
  if (std::exchange(step_, step) != step) times_ = 0;
  if (spoilt_blocks == 0 && ++times_ > most_times) {
    return fail(errc::diverged, why.where,
                why.message + ", " + std::to_string(times_) +
                    " times from sound parameters: lower the learning rate, clip gradients, or look at this machine's "
                    "memory");
  }
  const std::string lost = "; so are " + std::to_string(spoilt_blocks) + " of its blocks, which it gives up";
  log(severity::warning, "step " + std::to_string(step + 1) + ": " + why.text() + (spoilt_blocks > 0 ? lost : "") +
                             "; the others go on without this peer until it is sound");
  return fail(errc::corrupt, why.where, why.message);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_UNSOUND_STEPS_IPP
