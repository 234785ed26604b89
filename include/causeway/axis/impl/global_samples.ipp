// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_GLOBAL_SAMPLES_IPP
#define CAUSEWAY_AXIS_IMPL_GLOBAL_SAMPLES_IPP

#include <causeway/axis/global_samples.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL global_samples::global_samples(std::uint64_t target) : target_{target} {}

CAUSEWAY_DECL result<void> global_samples::check(std::size_t) const {
  if (target_ > 0) return {};
  return fail(errc::invalid_argument, "global_samples", "a target of 0 samples; set it to 1 or more");
}

CAUSEWAY_DECL std::uint64_t global_samples::total(std::uint64_t own) const {
  std::uint64_t sum = own;
  for (const ear& e : ears_) sum += e.round == round_ ? e.samples : 0;
  return sum;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_GLOBAL_SAMPLES_IPP
