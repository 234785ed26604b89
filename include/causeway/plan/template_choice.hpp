// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP
#define CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP

// Which pipelines to make of the peers there are, and how many micro-batches each gets: the online half of Oobleck's
// planning (SOSP 2023, section 4.2). Pipelines of different sizes work on one global batch, so an iteration takes as long
// as the last of them. The paper solves integer programmes; here both are exact without one: for a given time limit each
// template has a largest number of micro-batches, a knapsack finds the pipelines that do the most together, and the least
// limit at which that is enough is found by bisection. What averaging the gradients takes is not in it.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/templates.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Pipelines and what each does in an iteration.
struct template_choice {
  std::vector<std::size_t> sizes;          ///< in peers, falling
  std::vector<std::size_t> micro_batches;  ///< of each pipeline
  double seconds = 0;                      ///< of the pipeline that ends last
};

/// Splits `micro_batches` over pipelines of `sizes` so that the last ends as early as can be. Exact.
CAUSEWAY_DECL template_choice split_batch(const template_set& set, std::vector<std::size_t> sizes,
                                          std::size_t micro_batches);

/// The pipelines, at least f + 1, that all of `peers` peers together make, so that `micro_batches` take the least time.
/// Exact. errc::out_of_memory: too few peers; save a checkpoint and wait.
CAUSEWAY_DECL result<template_choice> choose_templates(const template_set& set, std::size_t peers,
                                                       std::size_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/template_choice.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP
