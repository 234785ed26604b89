// SPDX-License-Identifier: Apache-2.0
#include "pipeline_recoveries.hpp"

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/recovery_templates.hpp>
#include <causeway/train/pipeline_executors.hpp>

#include <algorithm>
#include <string_view>

#include "policies.hpp"

namespace app {
namespace {

using causeway::parallel_traits;

/// What the executors of pipelines with a recovery say of themselves.
struct kind {
  std::string_view name;
  bool cut_apart;
  parallel_traits of_gradients, of_local_steps, without_flush;
};

template <class Parallel, class Comm, class Recovery>
constexpr parallel_traits run_by = causeway::executor_of<Parallel, Comm, causeway::fault::quorum<Recovery>>::traits;

template <class Recovery>
constexpr kind of() {
  using causeway::parallel::pipeline;
  using sums = causeway::comm::every_step<>;
  using steps = causeway::comm::rounds<>;
  return {Recovery::name, causeway::stage::cut_apart<Recovery>, run_by<pipeline<>, sums, Recovery>,
          run_by<pipeline<>, steps, Recovery>, run_by<causeway::parallel::async_pipeline<>, steps, Recovery>};
}

namespace recovery = causeway::stage::recovery;
constexpr kind kinds[] = {of<recovery::regroup>(),   of<recovery::redundant>(),      of<recovery::redundant_forward>(),
                          of<recovery::templates>(), of<recovery::morph>(),          of<recovery::proactive>(),
                          of<recovery::reroute>(),   of<recovery::neighbour_init>(), of<recovery::swapped_neighbours>()};

bool goes(const kind& k, const settings& s, const causeway::comm_traits& comm) {
  const parallel_traits& alone = is_async_pipeline(s) ? k.without_flush : k.of_local_steps;
  return causeway::rules::c8(comm, steps_alone(s) ? alone : k.of_gradients);
}

}  // namespace

std::vector<std::string> recovery_names() {
  std::vector<std::string> names;
  for (const kind& k : kinds) names.emplace_back(k.name);
  return names;
}

bool cuts_apart(const settings& s) {
  return std::any_of(std::begin(kinds), std::end(kinds),
                     [&](const kind& k) { return k.name == s.parallel.recovery && k.cut_apart; });
}

causeway::result<void> check_recovery(const settings& s) {
  const causeway::comm_traits comm = traits_of(s);
  std::string others;
  for (const kind& k : kinds) {
    if (!goes(k, s, comm)) continue;
    if (k.name == s.parallel.recovery) return {};
    others += (others.empty() ? "" : ", ") + std::string{k.name};
  }
  return causeway::fail(causeway::errc::invalid_argument, "parallel.recovery",
                        s.parallel.recovery + " does not go with " + s.comm.policy + " in " + s.parallel.policy +
                            ": rule C8 (docs/reference/rules.md#c8); use " + others);
}

}  // namespace app
