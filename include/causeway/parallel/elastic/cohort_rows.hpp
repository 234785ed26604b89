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

/// What a peer says of its local progress. A regular value without padding: it travels as it is.
struct cohort_member {
  std::uint64_t state = 0;      ///< names what its shared parameters are of, as step_record::state
  std::uint64_t cohort = 0;     ///< names its own; 0: none
  std::uint64_t steps = 0;      ///< that it has taken since the last exchange
  double norm = 0;              ///< of the gradient of the last of them, over the whole model
  double loss = 0;              ///< of that, over the replica's tokens
  double evaluation = 0;        ///< what the last evaluation came to
  std::uint32_t slots = 0;      ///< of the round
  std::uint32_t slot = 0;       ///< its cohort's
  std::uint32_t first = 0;      ///< micro-batch of a batch that is that slot's
  std::uint32_t share = 0;      ///< and how many are
  double speed = 0;             ///< samples a second of a replica that it was in, in the last round; 0: unknown
  std::uint64_t evaluated = 0;  ///< evaluations that it is through with since that step
  std::uint64_t forwards = 0;   ///< where micro-batches stream: how many it has taken from the stage before
  std::uint64_t gradients = 0;  ///< and of how many their gradients, from the stage behind
  std::uint64_t exchanges = 0;  ///< 1: where an exchange is said to come, it comes after the last of these steps
  // Where steps are of a replica as it is: see whole_row.
  std::uint64_t taken_in = 0;     ///< names the replica in which the last of these steps was made; 0: none was
  std::uint64_t complete_in = 0;  ///< and the one that it has a gradient of, with which it can make the next; 0: none
  std::array<nn::block_range, 2> keeps{};  ///< what it holds of its cohort's progress; empty ones do not count
};

/// Names a replica's peers and stages: steps that are made in one belong together.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t name_of_row(const stage::replica& r);

/// What a peer that holds these has of its cohort's progress, to say so in cohort_member::keeps; there are at most two
/// ranges.
CAUSEWAY_DECL [[nodiscard]] std::array<nn::block_range, 2> as_kept(std::span<const nn::block_range> held);

/// The assignments of the peers of one cohort, in the order of the model; none if a stage is missing that nobody keeps.
/// `places`: of those who say that they are in it. Those of them count that have made the same steps together, or can catch
/// up with these: of several such sets, the one that is furthest, then the largest. `keeps_work`: a lost peer's stage stays
/// a stage, with nobody in its place, and is made by its shadow (stage::shadow_of), whose own it does not become.
CAUSEWAY_DECL [[nodiscard]] std::vector<stage::assignment> whole_row(const stage::cluster_snapshot& g,
                                                                     std::span<const cohort_member> members,
                                                                     std::span<const std::size_t> places,
                                                                     bool keeps_work = false);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/cohort_rows.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COHORT_ROWS_HPP
