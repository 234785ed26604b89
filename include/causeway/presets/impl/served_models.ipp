// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_SERVED_MODELS_IPP
#define CAUSEWAY_PRESETS_IMPL_SERVED_MODELS_IPP

#include <causeway/presets/served_models.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL result<petals_finetune> make(const petals_finetune_options& o) {
  return detail::tuned_by(o, {.prompts = o.prompts, .adapters = {}});
}

CAUSEWAY_DECL result<petals_lora> make(const petals_lora_options& o) {
  return detail::tuned_by(o, {.prompts = {}, .adapters = o.adapters});
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_SERVED_MODELS_IPP
