// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_LOCAL_UPDATES_IPP
#define CAUSEWAY_PRESETS_IMPL_LOCAL_UPDATES_IPP

#include <causeway/presets/local_updates.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL diloco make(const diloco_options& o) {
  return diloco{axis::every{o.local_steps},
                axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

CAUSEWAY_DECL open_diloco make(const open_diloco_options& o) {
  return open_diloco{axis::every{o.local_steps},
                     axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}},
                     axis::all_reduce<compress::fp16>{}};
}

CAUSEWAY_DECL intellect1 make(const intellect1_options& o) {
  return intellect1{axis::every{o.local_steps},
                    axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}},
                    axis::quantised_ring<compress::sigma_int8>{}};
}

CAUSEWAY_DECL muloco make(const muloco_options& o) {
  return muloco{axis::every{o.local_steps},
                axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}},
                axis::gather_mean<compress::codebook_rows<2>, collective::recoded<>>{},
                axis::error_feedback{o.error_decay, 1.0F}};
}

CAUSEWAY_DECL local_sgd make(const local_sgd_options& o) {
  return local_sgd{axis::every{o.local_steps}, axis::outer<optim::sgd>{1.0F}};
}

CAUSEWAY_DECL fedavg make(const fedavg_options& o) {
  return fedavg{axis::every{o.local_steps}, axis::outer<optim::sgd>{1.0F}, axis::sampled_peers{o.share},
                axis::split_mean<>{}};
}

CAUSEWAY_DECL photon make(const photon_options& o) {
  return photon{axis::every{o.local_steps},
                axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}},
                axis::sampled_peers{o.share}, axis::split_mean<>{}};
}

CAUSEWAY_DECL co_learning make(const co_learning_options& o) {
  return co_learning{axis::growing{o.rounds}, axis::outer<optim::sgd>{1.0F}};
}

CAUSEWAY_DECL des_loc make(const des_loc_options& o) {
  return des_loc{axis::periods{{o.parameters_every, o.first_moment_every, o.second_moment_every}},
                 axis::parameters_and_moments{}, axis::split_mean<>{}};
}

namespace detail {

/// What EDiT does with pseudo-gradients, whenever they are exchanged.
template <class Policy, class Trigger, class Options>
Policy penalised_rounds(Trigger trigger, const Options& o) {
  const axis::penalty_options penalty{
      .decay = o.decay, .warm_up = o.warm_up, .threshold = o.threshold, .temperature = o.temperature, .clip = o.clip};
  return Policy{
      trigger, axis::consecutive{1}, axis::penalised_mean{penalty},
      axis::outer_unless_zero<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

}  // namespace detail

CAUSEWAY_DECL edit make(const edit_options& o) { return detail::penalised_rounds<edit>(axis::every{o.local_steps}, o); }

CAUSEWAY_DECL a_edit make(const a_edit_options& o) {
  return detail::penalised_rounds<a_edit>(axis::every_seconds{{.seconds = o.seconds, .fewest_steps = o.fewest_steps}}, o);
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_LOCAL_UPDATES_IPP
