// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_HPP
#define CAUSEWAY_PLAN_HPP

// To compute what a run would take: planners, placements, replays of traces.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/plan/availability.hpp>
#include <causeway/plan/batch_rate.hpp>
#include <causeway/plan/clusters.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/dtfm_score.hpp>
#include <causeway/plan/flow_search.hpp>
#include <causeway/plan/link_fixtures.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/matching.hpp>
#include <causeway/plan/open_path.hpp>
#include <causeway/plan/peer_grid.hpp>
#include <causeway/plan/picture.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/pipeline_plan.hpp>
#include <causeway/plan/placement.hpp>
#include <causeway/plan/preemption_replay.hpp>
#include <causeway/plan/preemption_trace.hpp>
#include <causeway/plan/preemption_trace_text.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/recovery_morph.hpp>
#include <causeway/plan/recovery_neighbour.hpp>
#include <causeway/plan/recovery_proactive.hpp>
#include <causeway/plan/recovery_redundant.hpp>
#include <causeway/plan/recovery_reroute.hpp>
#include <causeway/plan/recovery_restart.hpp>
#include <causeway/plan/recovery_swarm.hpp>
#include <causeway/plan/recovery_templates.hpp>
#include <causeway/plan/resumed_order.hpp>
#include <causeway/plan/roles.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/schedule_greedy.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/skip_placement.hpp>
#include <causeway/plan/skip_plan.hpp>
#include <causeway/plan/skip_route.hpp>
#include <causeway/plan/square_cube.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/step_estimate.hpp>
#include <causeway/plan/template_choice.hpp>
#include <causeway/plan/template_reaction.hpp>
#include <causeway/plan/templates.hpp>
#include <causeway/plan/timeline.hpp>
#include <causeway/plan/transformer_cost.hpp>
#include <causeway/plan/two_way_schedules.hpp>
#include <causeway/plan/utilisation.hpp>
#include <causeway/plan/varuna_search.hpp>

#endif  // CAUSEWAY_PLAN_HPP
