// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_SUBSPACES_IPP
#define CAUSEWAY_PRESETS_IMPL_SUBSPACES_IPP

#include <causeway/presets/subspaces.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL protocol_models make(const protocol_models_options& o) {
  return protocol_models{
      {.micro_batches = o.micro_batches, .ranks = o.ranks}, {}, stage::subspace<>{{.rank = o.rank, .seed = o.seed}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_SUBSPACES_IPP
