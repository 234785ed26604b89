// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_OPTIMIZERS_IPP
#define CAUSEWAY_PRESETS_IMPL_OPTIMIZERS_IPP

#include <causeway/presets/optimizers.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL snoo make(const snoo_options& o) {
  return snoo{
      {.local_steps = o.local_steps, .outer_learning_rate = o.outer_learning_rate, .outer_momentum = o.outer_momentum}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_OPTIMIZERS_IPP
