// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_MODULAR_IPP
#define CAUSEWAY_PRESETS_IMPL_MODULAR_IPP

#include <causeway/presets/modular.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL dipaco make(const dipaco_options& o) {
  return dipaco{axis::every{o.local_steps}, axis::consecutive{o.blocks_per_level},
                axis::module_groups{o.paths, o.weights, o.lengthen}, axis::split_mean<>{},
                axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_MODULAR_IPP
