// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_ELASTIC_PIPELINES_IPP
#define CAUSEWAY_PRESETS_IMPL_ELASTIC_PIPELINES_IPP

#include <causeway/presets/elastic_pipelines.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL oobleck make(const oobleck_options& o) {
  return oobleck{{.micro_batches = o.micro_batches, .storage = o.storage},
                 stage::recovery::templates{{o.failures, o.most_peers, o.model, o.kind}}};
}

CAUSEWAY_DECL varuna_morphing make(const varuna_morphing_options& o) {
  return varuna_morphing{{.micro_batches = o.micro_batches, .storage = o.storage, .store_every = o.store_every},
                         stage::recovery::morph{o.search}};
}

CAUSEWAY_DECL parcae make(const parcae_options& o) {
  return parcae{{.micro_batches = o.micro_batches, .storage = o.storage, .store_every = o.store_every},
                stage::recovery::proactive{o.plan}};
}

CAUSEWAY_DECL bamboo make(const bamboo_options& o) {
  return bamboo{{.micro_batches = o.micro_batches, .storage = o.storage, .store_every = o.store_every},
                stage::recovery::redundant_forward{o.stages}};
}

CAUSEWAY_DECL recycle make(const recycle_options& o) {
  return recycle{{.micro_batches = o.micro_batches, .storage = o.storage}, stage::recovery::reroute{o.stages, o.costs}};
}

CAUSEWAY_DECL checkfree make(const checkfree_options& o) {
  return checkfree{{.micro_batches = o.micro_batches},
                   stage::recovery::neighbour_init{{o.stages, o.rate_factor, o.weights}}};
}

CAUSEWAY_DECL checkfree_plus make(const checkfree_plus_options& o) {
  return checkfree_plus{{.micro_batches = o.micro_batches, .storage = o.storage},
                        stage::recovery::swapped_neighbours{{o.stages, o.rate_factor, o.weights}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_ELASTIC_PIPELINES_IPP
