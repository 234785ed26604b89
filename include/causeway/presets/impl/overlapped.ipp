// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_OVERLAPPED_IPP
#define CAUSEWAY_PRESETS_IMPL_OVERLAPPED_IPP

#include <causeway/presets/overlapped.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL streaming_diloco make(const streaming_diloco_options& o) {
  return streaming_diloco{
      axis::staggered{o.local_steps}, axis::strided{o.blocks_in_fragment}, axis::gather_mean<compress::e3m0>{},
      axis::delayed{o.overlap_steps, o.local_share},
      axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

CAUSEWAY_DECL eager_diloco make(const eager_diloco_options& o) {
  return eager_diloco{axis::every{o.local_steps}, axis::eager{}, axis::split_mean<>{},
                      axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

CAUSEWAY_DECL cocodc make(const cocodc_options& o) {
  return cocodc{axis::by_change{{.local_steps = o.local_steps, .exchanges = o.exchanges}},
                axis::strided{o.blocks_in_fragment}, axis::split_mean<>{}, axis::compensated{o.overlap_steps, o.lambda},
                axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_OVERLAPPED_IPP
