// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_ASYNCHRONOUS_IPP
#define CAUSEWAY_PRESETS_IMPL_ASYNCHRONOUS_IPP

#include <causeway/presets/asynchronous.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL async_local_sgd make(const async_local_sgd_options& o) {
  return async_local_sgd{
      axis::star{.record_samples = o.record_samples},
      axis::by_speed{{.local_steps = o.local_steps, .percentile = o.percentile}}, axis::one_by_one{o.grace_seconds},
      axis::outer<optim::delayed_nesterov>{o.outer_learning_rate,
                                           optim::delayed_nesterov{{.momentum = o.outer_momentum, .period = o.period}}}};
}

CAUSEWAY_DECL decoupled_diloco make(const decoupled_diloco_options& o) {
  return decoupled_diloco{
      axis::star{.record_samples = o.record_samples},
      axis::staggered{o.local_steps},
      axis::balanced{o.fragments},
      axis::delayed{o.overlap_steps, o.local_share},
      axis::quorum{.least = o.quorum, .gamma = o.gamma, .cap_seconds = o.cap_seconds, .most_batch = o.most_batch},
      axis::push<compress::bits<4>, collective::radial_directional>{},
      axis::outer<optim::nesterov_in_parts>{
          o.outer_learning_rate,
          optim::nesterov_in_parts{{.momentum = o.outer_momentum,
                                    .parts = o.whole_steps ? optim::part_steps::whole : optim::part_steps::by_share}}}};
}

namespace detail {

/// Delayed Nesterov with the rate of one push: the optimizer divides each push by the period.
CAUSEWAY_DECL axis::outer<optim::delayed_nesterov> outer_of_pushes(float rate, float momentum, std::uint32_t period) {
  return axis::outer<optim::delayed_nesterov>{rate * static_cast<float>(period),
                                              optim::delayed_nesterov{{.momentum = momentum, .period = period}}};
}

}  // namespace detail

CAUSEWAY_DECL halos make(const halos_options& o) {
  const auto upper = detail::outer_of_pushes(o.global_learning_rate, o.global_momentum, o.global_period);
  return halos{axis::every{o.local_steps},
               axis::regions<>{.members = o.regions,
                               .pushes = o.pushes,
                               .upper_share = o.global_share,
                               .upper = upper,
                               .label = o.label,
                               .record_samples = o.record_samples},
               detail::outer_of_pushes(o.region_learning_rate, o.region_momentum, o.region_period)};
}

CAUSEWAY_DECL dlion make(const dlion_options& o) {
  const detail::dlion_codec codec{compress::no_transform{}, compress::threshold{{.least = o.threshold}}};
  return dlion{axis::batch_by_speed{{.local_steps = o.local_steps, .sequences = o.sequences, .multiple = o.multiple}},
               axis::error_feedback{}, axis::gather_mean<detail::dlion_codec>{codec}, axis::outer<optim::sgd>{1.0F}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_ASYNCHRONOUS_IPP
