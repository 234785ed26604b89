// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_DTFM_HPP
#define CAUSEWAY_PLAN_DTFM_HPP

// Places pipelines on devices that are linked unequally: DTFM's scheduler (Yuan et al., NeurIPS 2022, arXiv 2206.01288). A
// population of balanced partitions evolves: two parents are crossed at five points, the child is mended to be balanced,
// improved by cyclic moves between groups (in the manner of Kernighan and Lin, gains from the links' costs), and takes the
// place of its worse parent where it is better.
//
// The paper leaves the gains open. Here they are differences of mean link costs, and each child draws what it strives for:
// groups of near devices (cheap averages) or of devices far from each other (so that near ones are in neighbouring stages:
// cheap hops). A sequence of cycles may go uphill; its best point by the true cost is kept. Ours besides: half of the first
// population deals chains of near devices out to groups; its best ones and each child end with swaps that lower the true
// cost, of single devices and of all that are alike. All devices are taken to compute alike.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/dtfm_score.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct dtfm_options {
  std::uint64_t seed = 1;
  std::size_t population = 32;         ///< at least 2
  std::size_t children = 400;          ///< how many are bred
  std::uint64_t evaluations = 200000;  ///< of partitions, after which no more children are bred
};

struct dtfm_plan {
  placement where;
  placement_cost cost;
  std::uint64_t evaluations = 0;
};

/// A placement of `task` on some of the devices of `links`, as cheap as the search finds. The same input and seed give the
/// same plan on every machine. errc::invalid_argument: links that are none, or too few devices.
CAUSEWAY_DECL result<dtfm_plan> plan_dtfm(const link_matrix& links, const pipeline_task& task,
                                          const dtfm_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/dtfm.ipp>
#endif

#endif  // CAUSEWAY_PLAN_DTFM_HPP
