// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_COMPRESSED_IPP
#define CAUSEWAY_PRESETS_IMPL_COMPRESSED_IPP

#include <causeway/presets/compressed.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL sparse_loco make(const sparse_loco_options& o) {
  const detail::sparse_loco_codec codec{compress::no_transform{}, compress::top_k{{.k = o.k}}};
  return sparse_loco{axis::every{o.local_steps}, axis::error_feedback{o.error_decay, 1.0F},
                     axis::gather_mean<detail::sparse_loco_codec, collective::clipped_contributor_mean>{
                         codec, collective::clipped_contributor_mean{.over_all = o.over_all, .clips = o.clips}},
                     axis::outer<optim::sgd>{o.outer_learning_rate}};
}

CAUSEWAY_DECL sparta make(const sparta_options& o) {
  const detail::sparta_codec codec{compress::no_transform{}, compress::shared_mask{{.share = o.share, .order = o.order}}};
  return sparta{axis::every{1}, axis::parameters{},
                axis::gather_mean<detail::sparta_codec, collective::contributor_mean>{codec}};
}

CAUSEWAY_DECL sparta_diloco make(const sparta_diloco_options& o) {
  return sparta_diloco{make(o.sparta), comm::rounds<axis::every, axis::outer<optim::nesterov>>{
                                           axis::every{o.local_steps},
                                           axis::outer<optim::nesterov>{o.outer_learning_rate,
                                                                        optim::nesterov{{.momentum = o.outer_momentum}}}}};
}

CAUSEWAY_DECL demo make(const demo_options& o) {
  using codec = compress::sparse<compress::dct_tiles, compress::top_k, compress::none>;
  return demo{axis::every{1}, axis::gradient{}, axis::momentum_residual{o.momentum},
              detail::demo_exchange<compress::none>{codec{compress::dct_tiles{}, compress::top_k{{.k = o.k}}}}};
}

CAUSEWAY_DECL distro make(const distro_options& o) {
  using codec = compress::sparse<compress::dct_tiles, compress::top_k, compress::unit_sign>;
  return distro{axis::every{1}, axis::gradient_ahead{}, axis::momentum_residual{o.momentum}, axis::one_round_late{},
                detail::demo_exchange<compress::unit_sign>{codec{compress::dct_tiles{}, compress::top_k{{.k = o.k}}}}};
}

CAUSEWAY_DECL cocktail_sgd make(const cocktail_sgd_options& o) {
  const detail::cocktail_codec codec{
      compress::no_transform{},
      compress::stacked<compress::shared_mask, compress::top_k>{compress::shared_mask{{.share = o.mask_share}},
                                                                compress::top_k{{.k = o.k, .chunks = {.run = 4096}}}},
      compress::bits<4>{}};
  return cocktail_sgd{axis::every{1}, axis::implicit_residual{}, axis::one_round_late{},
                      axis::split_mean<detail::cocktail_codec>{{.shares = {}, .server_residual = true}, codec, codec},
                      axis::outer<optim::sgd>{1.0F}};
}

CAUSEWAY_DECL gaia make(const gaia_options& o) {
  const detail::gaia_codec codec{compress::no_transform{}, compress::significant{{.first = o.threshold}}};
  return gaia{axis::every{1}, axis::implicit_residual{}, axis::gather_mean<detail::gaia_codec, collective::sum>{codec},
              axis::outer<optim::sgd>{1.0F}};
}

CAUSEWAY_DECL gaia_asp make(const gaia_asp_options& o) {
  return gaia_asp{{.most_ahead = o.most_ahead, .groups = o.groups, .label = o.label, .record_samples = o.record_samples},
                  detail::gaia_codec{compress::no_transform{}, compress::significant{{.first = o.threshold}}}};
}

CAUSEWAY_DECL stella_train make(const stella_train_options& o) {
  return stella_train{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::one_round_late{},
                      axis::group_threshold_mean{{.share = static_cast<float>(o.share), .in_parts = o.in_parts}}};
}

CAUSEWAY_DECL power_sgd make(const power_sgd_options& o) {
  return power_sgd{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::low_rank_mean{o.rank}};
}

CAUSEWAY_DECL dion make(const dion_options& o) {
  return dion{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::dion_mean{o.rank, o.momentum}};
}

CAUSEWAY_DECL dedloc make(const dedloc_options& o) {
  return dedloc{axis::global_samples{o.batch}, axis::gradient{}, axis::split_mean<>{.options = {.shares = o.shares}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_COMPRESSED_IPP
