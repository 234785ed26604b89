// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_EXPERTS_IPP
#define CAUSEWAY_PRESETS_IMPL_EXPERTS_IPP

#include <causeway/presets/experts.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL learning_at_home make(const learning_at_home_options& o) {
  return learning_at_home{axis::every{o.local_steps}, axis::outer<optim::sgd>{1.0F}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_EXPERTS_IPP
