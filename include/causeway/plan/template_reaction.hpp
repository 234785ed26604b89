// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP
#define CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP

// What Oobleck does when peers are gone (SOSP 2023, section 5): a pipeline with n peers left takes the template of size n;
// with too few it borrows from the largest pipeline that can spare one; where none can, it is merged with the smallest
// other. As long as (f + 1) n0 peers are there, f + 1 pipelines or more remain: if x of them cannot lend, there are fewer
// than x n0 peers, so x > f + 1 and one may go. Peers then copy the blocks that they did not hold from any that did.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/templates.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The peers of each pipeline, in the order of its template's peers.
using pipeline_peers = std::vector<std::vector<std::size_t>>;

/// `peer` fetches `block` from `from`, which held it before.
struct block_copy {
  std::size_t peer = 0;
  std::size_t block = 0;
  std::size_t from = 0;

  friend bool operator==(const block_copy&, const block_copy&) = default;
};

struct template_reaction {
  pipeline_peers pipelines;
  std::vector<block_copy> copies;
  std::size_t borrowed = 0;  ///< peers that changed their pipeline
  std::size_t merged = 0;    ///< pipelines that went into others
};

/// Which blocks each peer holds: (peer, block) for all.
CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> held_blocks(const template_set& set,
                                                                           const pipeline_peers& all);

namespace detail {

CAUSEWAY_DECL result<std::vector<block_copy>> copies_for(const template_set& set, const pipeline_peers& before,
                                                         const pipeline_peers& after, const std::vector<std::size_t>& lost);

}  // namespace detail

/// The pipelines without `lost`, and what must be copied for them. errc::out_of_memory: fewer than (f + 1) n0 peers are
/// left; errc::peer_lost: a block is gone with all its holders (more than f losses at once). In both cases: checkpoint.
CAUSEWAY_DECL result<template_reaction> react(const template_set& set, const pipeline_peers& pipelines,
                                              const std::vector<std::size_t>& lost);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/template_reaction.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP
