// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_COHORTS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_COHORTS_HPP

// Pipelines whose replicas take steps of their own between two exchanges. The peers of a replica are a cohort: they share
// one copy of local progress, which is worth something as long as all of them are there. A round begins with a layout; each
// replica of it is a slot, with its share of every global batch until the round is over. A cohort that is whole keeps its
// slot, whoever else comes or goes. Who belongs to none is laid out anew from the shared parameters, into slots that are
// empty, and makes those slots' part of the round from its beginning.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/cohort_rows.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Who trains in which slot.
struct cohort_layout {
  stage::layout layout;              ///< [slot]; without assignments: nobody does, in this round
  std::vector<std::uint64_t> names;  ///< [slot] of cohorts that go on; 0: it begins, or there is none
};

/// Where pipelines share out paths through a model of modules, as evenly as can be: that of a slot, rising with slots.
/// Where there are fewer slots, nobody has the last paths.
CAUSEWAY_DECL [[nodiscard]] std::uint32_t path_of_slot(std::size_t slot, std::size_t slots, std::uint32_t paths) noexcept;
/// How many micro-batches of a global batch each slot has: of as many equal parts of it as there are `paths`, one for each,
/// those of a path share one. 0 paths: all share all.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> shares_of_slots(std::uint32_t micro_batches, std::size_t slots,
                                                                       std::uint32_t paths);

/// See exchange_state::parts_for.
using parts_by_speed = std::function<std::vector<std::size_t>(const std::vector<double>& speeds)>;

/// The cohorts that are whole, in their slots, with the parts that these have had; none where all begin anew. `members[p]`
/// is what cluster_snapshot::peers[p] says. `state`: of the run; `keeps_work`: see whole_row.
CAUSEWAY_DECL [[nodiscard]] cohort_layout standing_cohorts(const stage::cluster_snapshot& g,
                                                           std::span<const cohort_member> members, std::uint64_t state,
                                                           std::uint32_t paths = 0, bool keeps_work = false);

/// errc::unsupported unless all replicas are cut alike and nobody keeps another's stage: who exchanges rows of blocks by a
/// communication policy must have rows of one length. `detours`: a stage may have nobody.
CAUSEWAY_DECL [[nodiscard]] result<void> check_alike(const stage::layout& l, std::string_view recovery,
                                                     bool detours = false);

/// Who computes a block in one pipeline. Where nobody is in the place of its stage, another who keeps it does; if there is
/// none, stage::nobody: micro-batches take detours.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t computer_of(const stage::replica& r, std::int64_t block);

/// Peers that exchange, and how much each has in what they exchange.
struct row_shares {
  std::vector<std::uint64_t> peers;
  std::vector<double> shares;
};
/// Those who compute a block, at most one in each pipeline: of all micro-batches the part that goes through each.
CAUSEWAY_DECL [[nodiscard]] row_shares computers_of(const stage::layout& l, std::int64_t block);

/// All who are assigned, in the order of replicas and ranks, each with its replica's part of all micro-batches; of each
/// block those of them who hold it; and the replica that each of them is in, of those with peers. `shares_table`: of a
/// table, too, which those hold who have either end of the model; who computes the first block puts it in, with what the
/// last one's gradient did to it.
CAUSEWAY_DECL [[nodiscard]] row_shares all_holders(const stage::layout& l);
CAUSEWAY_DECL [[nodiscard]] std::vector<row_holders> holders_of_blocks(const stage::layout& l, bool shares_table = false);
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> replicas_of_holders(const stage::layout& l);

namespace detail {

CAUSEWAY_DECL [[nodiscard]] result<void> check_paths(std::uint32_t micro_batches, std::uint32_t paths);

/// Each replica's part of a batch in a round that begins: by its speed, with paths as shares_of_slots has it, else the one
/// that the recovery chose. errc::unsupported: these are not as many as there are micro-batches.
CAUSEWAY_DECL [[nodiscard]] result<void> share_out(stage::layout& l, const stage::cluster_snapshot& g,
                                                   std::span<const cohort_member> members, std::uint32_t paths,
                                                   const parts_by_speed& parts_for);

/// Those who are in no standing cohort, and as many micro-batches as there are empty slots.
CAUSEWAY_DECL [[nodiscard]] stage::cluster_snapshot free_peers(const stage::cluster_snapshot& g,
                                                               const cohort_layout& standing);

/// Puts replicas of `more` into empty slots, if they are cut like the others, or in `any_cut`.
CAUSEWAY_DECL void fill_slots(cohort_layout& into, const stage::layout& more, bool any_cut);

}  // namespace detail

/// Whole cohorts, and new ones of who is left, as `recovery` lays them out. Errors: those of the recovery, where no cohort
/// is whole; errc::invalid_argument: `paths` do not divide the micro-batches; as detail::share_out.
template <stage::Recovery Recovery>
result<cohort_layout> arrange_cohorts(Recovery& recovery, const stage::cluster_snapshot& g,
                                      std::span<const cohort_member> members, std::uint64_t state, std::uint32_t paths = 0,
                                      const parts_by_speed& parts_for = {}) {
  CAUSEWAY_TRY(detail::check_paths(g.micro_batches, paths));
  cohort_layout made = standing_cohorts(g, members, state, paths, Recovery::traits.keeps_work);
  for (stage::replica& r : made.layout.replicas) r.ring = Recovery::traits.joined_ends;
  if (made.layout.replicas.empty()) {
    CAUSEWAY_ASSIGN(made.layout, recovery.arrange(g));
    CAUSEWAY_TRY(made.layout.check(g.layers, g.micro_batches));
    if constexpr (!stage::cut_apart<Recovery>) CAUSEWAY_TRY(check_alike(made.layout, Recovery::name));
    CAUSEWAY_TRY(detail::share_out(made.layout, g, members, paths, parts_for));
    made.names.assign(made.layout.replicas.size(), 0);
    return made;
  }
  const stage::cluster_snapshot rest = detail::free_peers(g, made);
  if (rest.micro_batches == 0 || rest.peers.empty()) return made;
  if (const auto more = recovery.arrange(rest)) detail::fill_slots(made, *more, stage::cut_apart<Recovery>);
  return made;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/cohorts.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COHORTS_HPP
