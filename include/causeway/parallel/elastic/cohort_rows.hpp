// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_COHORT_ROWS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_COHORT_ROWS_HPP

// Who goes on of a cohort, and with which stages. Where peers keep the stage behind theirs up to date, a cohort without one
// of its peers is whole still: the one that keeps the lost stage computes it, too. A lost peer may be there again, when the
// others have made steps without it.

#include <causeway/config/config.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct cohort_member;

/// Names a replica's peers and stages: steps that are made in one belong together.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t name_of_row(const stage::replica& r);

/// What a peer that holds these has of its cohort's progress, to say so in cohort_member::keeps; there are at most two
/// ranges.
CAUSEWAY_DECL [[nodiscard]] std::array<nn::block_range, 2> as_kept(std::span<const nn::block_range> held);

/// The assignments of the peers of one cohort, in the order of the model; none if a stage is missing that nobody keeps.
/// `places`: of those who say that they are in it. Those of them count that have made the same steps together, or can catch
/// up with these: of several such sets, the one that is furthest, then the largest.
CAUSEWAY_DECL [[nodiscard]] std::vector<stage::assignment> whole_row(const stage::cluster_snapshot& g,
                                                                     std::span<const cohort_member> members,
                                                                     std::span<const std::size_t> places);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/cohort_rows.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COHORT_ROWS_HPP
