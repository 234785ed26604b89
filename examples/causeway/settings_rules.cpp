// SPDX-License-Identifier: Apache-2.0
// What settings must satisfy.

#include <causeway/net/endpoint.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

#include "chosen_schedule.hpp"
#include "command_line.hpp"
#include "named_presets.hpp"
#include "option.hpp"
#include "page_server.hpp"
#include "path_layout.hpp"
#include "pipeline_recoveries.hpp"
#include "policies.hpp"
#include "settings.hpp"
#include "swarm_place.hpp"

namespace app {

using causeway::errc;
using causeway::fail;

std::int64_t stages_wanted(const settings& s) {
  if (s.parallel.stages != 0) return s.parallel.stages;
  const std::int64_t fewest = joins_ends(s) ? 4 : s.parallel.recovery == "neighbour_init" ? 3 : 2;  // it has neighbours
  return std::min(fewest, s.model.layers);
}

std::uint32_t pipelines_of(const settings& s) {
  return std::max(1U, s.net.peers / static_cast<std::uint32_t>(std::max<std::int64_t>(1, stages_wanted(s))));
}

std::string idle_peers(const settings& s) {
  if (!is_elastic_pipeline(s) || steps_alone(s)) return {};
  const std::int64_t stages = stages_wanted(s), pipelines = pipelines_of(s), fed = s.train.micro_batches;
  if (fed >= pipelines) return {};
  return std::to_string(s.net.peers - fed * stages) + " of " + std::to_string(s.net.peers) +
         " peers are only spare: a step has " + std::to_string(fed) + " micro-batch" + (fed == 1 ? "" : "es") + " for " +
         std::to_string(pipelines) + " pipelines; --train.micro_batches " + std::to_string(pipelines) +
         " gives each pipeline one";
}

namespace {

// Of stages whose peers step alone, or gather: they cannot end in the middle of a round.
causeway::result<void> validate_rounds(const settings& s) {
  const std::uint64_t h = steps_of_round(s), rounds = h == 0 ? 0 : s.train.steps / h;
  if (h == 0) return fail(errc::invalid_argument, "comm.local_steps", "use 1 or more");
  if (s.train.steps % h == 0) return {};
  return fail(errc::invalid_argument, "train.steps",
              "stages whose peers come and go train whole rounds, of " + std::to_string(h) +
                  " steps (comm.local_steps, or comm.batch_samples / train.batch); use " +
                  (rounds > 0 ? std::to_string(rounds * h) + " or " : "") + std::to_string((rounds + 1) * h));
}

// Of a swarm.
causeway::result<void> validate_local_steps(const settings& s) {
  const auto all = most_steps_between(s) * static_cast<std::uint64_t>(std::max<std::int64_t>(s.train.micro_batches, 0));
  if (all <= causeway::parallel::swarm_wire::most_micro_batches) return validate_rounds(s);
  return fail(errc::invalid_argument, "comm.local_steps",
              "times train.micro_batches is " + std::to_string(all) +
                  " micro-batches between exchanges; use fewer, up to " +
                  std::to_string(causeway::parallel::swarm_wire::most_micro_batches));
}

// Stages that write into a subspace of the residual stream alone.
causeway::result<void> validate_subspace(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (s.comm.policy != "every_step" || s.train.optimizer != "adamw") {
    return bad("parallel.codec",
               "a subspace is kept by AdamW on gradients that all replicas average; use --comm every_step and --optimizer "
               "adamw, or another codec");
  }
  if (s.model.dropout > 0) return bad("model.dropout", "leaves the subspace that all stages share; use 0");
  if (s.parallel.random_routes) return bad("parallel.random_routes", "leave it out, or use another parallel.codec");
  if (s.model.start.empty() && s.parallel.directions > s.model.width) {
    return bad("parallel.directions", "are up to model.width (" + std::to_string(s.model.width) + ")");
  }
  return {};
}

// The same where peers come and go, and make what they know of the embedding from the run's seed.
causeway::result<void> validate_moving_subspace(const settings& s) {
  CAUSEWAY_TRY(validate_subspace(s));
  if (s.model.start.empty()) return {};
  return fail(errc::invalid_argument, "parallel.codec",
              "peers that come and go know what a subspace leaves out of the embedding from the run's seed, not from a "
              "model that it started from; start without model.init, or use another codec or --fault.policy fail_stop");
}

// So many hold the model once, at least.
causeway::result<void> validate_peers_of_stages(const settings& s) {
  const std::string& recovery = s.parallel.recovery;
  if (recovery == "templates" || recovery == "morph" || recovery == "proactive") return {};  // they choose the stages
  const std::int64_t needed = stages_wanted(s) + (joins_ends(s) ? 1 : 0);
  if (s.net.peers >= needed) return {};
  return fail(errc::invalid_argument, "net.peers",
              std::to_string(s.net.peers) + " cannot hold the model, which takes " + std::to_string(needed) + ": " +
                  std::to_string(stages_wanted(s)) + " stages" + (joins_ends(s) ? " and a peer for both ends" : "") +
                  "; use --peers " + std::to_string(needed) + " or more, or fewer parallel.stages");
}

// Pipelines whose first two stages swap, and the last two.
causeway::result<void> validate_swaps(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (s.parallel.schedule != "1f1b")
    return bad("parallel.schedule", "swapped_neighbours has an order of its own; use 1f1b");
  if (is_async_pipeline(s)) return bad("parallel.recovery", "swapped_neighbours has an order of its own; use a pipeline");
  if (s.parallel.stages != 0 && s.parallel.stages < 4) {
    return bad("parallel.stages", "the first two stages swap, and the last two; use 4 or more");
  }
  if (s.model.layers >= 4) return {};
  return bad("model.layers", "the first two stages swap, and the last two; use 4 or more");
}

// Pipelines whose peers come and go.
causeway::result<void> validate_elastic_pipeline(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (!find_policy(s.comm.policy)->in_elastic_pipelines()) {
    return bad("comm.policy",
               "pipelines whose peers come and go exchange gradients in every step, or what local steps moved or came to, "
               "for AdamW, which " +
                   s.comm.policy + " does not; use " + elastic_pipeline_policy_names());
  }
  if (s.comm.policy == "halos" && s.net.region >= 0)
    return bad("net.region", "pipelines share the regions out, whatever place their peers are in; leave it out");
  if (steps_alone(s) || steps_of_round(s) > 1) CAUSEWAY_TRY(validate_rounds(s));
  CAUSEWAY_TRY(check_recovery(s));
  if (!moves_with_stages(s.train.optimizer)) {
    return bad("train.optimizer", "the state that moves with a stage is AdamW's, LAMB's or SGD's; use adamw or lamb");
  }
  if (s.parallel.recovery == "redundant_forward" && s.parallel.schedule != "1f1b") {
    return bad("parallel.schedule", "redundant_forward repeats forwards where 1f1b has a peer wait; use 1f1b with it");
  }
  if (chosen_schedule{s.parallel.schedule}.chunks() > 1) {
    return bad("parallel.schedule", "a peer has one stage here; use 1f1b, gpipe, zero_bubble or zero_bubble_h2");
  }
  if (s.parallel.random_routes) {
    return bad("parallel.random_routes", "peers that come and go keep their pipelines; leave it out, or use a swarm");
  }
  if (!s.parallel.cuts.empty()) return bad("parallel.cuts", "parallel.recovery says where stages are cut; leave it out");
  if (s.parallel.codec.starts_with("delta")) {
    return bad("parallel.codec", "deltas need the same peers in every epoch; use none, fp16, bf16, int8 or fewer bits");
  }
  if (s.parallel.codec == "top_k") {
    return bad("parallel.codec", "top_k needs a fixed set of peers; use none, fp16, bf16, int8, fewer bits or subspace");
  }
  if (s.parallel.codec == "subspace") CAUSEWAY_TRY(validate_moving_subspace(s));
  if (s.parallel.recovery == "neighbour_init" && s.parallel.stages != 0 && s.parallel.stages < 3) {
    return bad("parallel.stages", "a stage that is made up needs one on either side; use 3 or more");
  }
  if (joins_ends(s)) CAUSEWAY_TRY(validate_swaps(s));
  if (s.parallel.stages > s.model.layers) {
    return bad("parallel.stages", "stages need as many blocks; model.layers is " + std::to_string(s.model.layers));
  }
  return validate_peers_of_stages(s);
}

// Stages whose peers come and go, one by one.
causeway::result<void> validate_swarm(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  const settings usual;
  if (s.fault.policy != "quorum") return bad("fault.policy", "the peers of a swarm come and go; use --fault.policy quorum");
  const policy& chosen = *find_policy(s.comm.policy);
  if (!chosen.in_swarms()) {
    return bad("comm.policy",
               "the peers of a stage exchange their gradients in every step, or what local steps moved, which " +
                   s.comm.policy + " does not; use " + swarm_policy_names());
  }
  if (steps_alone(s)) CAUSEWAY_TRY(validate_local_steps(s));
  if (!moves_with_stages(s.train.optimizer)) {
    return bad("train.optimizer", "stages are moved by AdamW, LAMB or SGD in a swarm; use adamw or lamb");
  }
  if (s.parallel.codec.starts_with("delta") || s.parallel.codec == "top_k") {
    return bad("parallel.codec",
               "micro-batches go through other peers every time; use none, fp16, bf16, int8, dynamic_int8, sigma_int8, "
               "e3m0, int4, "
               "int2 or subspace");
  }
  if (s.parallel.codec == "subspace") CAUSEWAY_TRY(validate_moving_subspace(s));
  if (s.parallel.schedule != usual.parallel.schedule || s.parallel.recovery != usual.parallel.recovery ||
      !s.parallel.cuts.empty()) {
    return bad("parallel.policy", "a swarm has no parallel.schedule, parallel.recovery or parallel.cuts; leave them out");
  }
  const std::int64_t stages = s.parallel.stages == 0 ? 2 : s.parallel.stages;
  if (stages > s.model.layers) {
    return bad("parallel.stages",
               std::to_string(stages) + " stages need as many blocks; model.layers is " + std::to_string(s.model.layers));
  }
  CAUSEWAY_TRY(check_paths(s));
  if (stages > s.net.peers) {
    return bad("net.peers", std::to_string(stages) + " stages need a peer each, and better three; use --peers " +
                                std::to_string(3 * stages) + ", or fewer parallel.stages");
  }
  if (s.parallel.stage < -1 || s.parallel.stage >= stages) {
    return bad("parallel.stage", "use 0 to " + std::to_string(stages - 1) + ", or -1");
  }
  if (s.fault.min_peers > s.net.peers / stages) {
    return bad("fault.min_peers", "counts the peers of a stage; use 1 to " + std::to_string(s.net.peers / stages));
  }
  if (s.run.refound) {
    return bad("run.refound",
               "a swarm is not founded anew; start the peers of the stage that is missing where their folders are");
  }
  return {};
}

// Stages that update on their own, whenever a gradient comes back.
causeway::result<void> validate_async_pipeline(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (s.fault.policy == "quorum" && find_policy(s.comm.policy)->traits.exchanges_gradients) {
    return bad("comm.policy", s.comm.policy +
                                  " exchanges gradients in every step, before which an async_pipeline whose peers come and "
                                  "go would be drained; use --parallel.policy pipeline, or diloco");
  }
  if (s.fault.policy != "quorum" && !find_policy(s.comm.policy)->same_rounds()) {
    return bad("comm.policy",
               "stages that never wait decide by themselves, so that their rounds come at different times with " +
                   s.comm.policy + "; use diloco, or another one whose rounds come after a number of steps");
  }
  if (s.parallel.codec == "subspace") {
    return bad("parallel.codec",
               "stages that never wait do not know each other's embedding; use a pipeline, or another one");
  }
  if (s.parallel.schedule != settings{}.parallel.schedule || s.parallel.random_routes) {
    return bad("parallel.policy", "an async_pipeline has no parallel.schedule or parallel.random_routes; leave them out");
  }
  return {};
}

causeway::result<void> validate_pipeline(const settings& s) {
  if (is_async_pipeline(s)) CAUSEWAY_TRY(validate_async_pipeline(s));
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (s.fault.policy == "quorum") return validate_elastic_pipeline(s);
  if (!find_policy(s.comm.policy)->in_pipelines()) {
    return bad("comm.policy", s.comm.policy +
                                  " lets peers go at their own pace, and what the program shows of a pipeline it gathers "
                                  "from all of them in the same step; use " +
                                  pipeline_policy_names());
  }
  if (s.parallel.codec == "subspace") CAUSEWAY_TRY(validate_subspace(s));
  const std::int64_t ranks = s.parallel.stages == 0 ? s.net.peers : s.parallel.stages;
  if (s.net.peers % ranks != 0) {
    return bad("parallel.stages", "must divide net.peers (" + std::to_string(s.net.peers) + ")");
  }
  const chosen_schedule schedule{s.parallel.schedule};
  const bool both_ways = schedule.path() == causeway::plan::stage_path::two_ways;
  const std::int64_t stages = both_ways ? ranks : ranks * schedule.chunks();
  if (const auto order =
          schedule.make(static_cast<std::uint32_t>(ranks), static_cast<std::uint32_t>(s.train.micro_batches));
      !order) {
    return bad("parallel.schedule", order.error().message);
  }
  if (both_ways && s.parallel.codec.starts_with("delta")) {
    return bad("parallel.codec", "samples go the other way in other epochs; use none, fp16, bf16, int8 or fewer bits");
  }
  if (stages > s.model.layers) {
    return bad("parallel.stages",
               std::to_string(stages) + " stages need as many blocks; model.layers is " + std::to_string(s.model.layers));
  }
  if (s.parallel.random_routes && (schedule.chunks() > 1 || s.parallel.codec.starts_with("delta"))) {
    return bad("parallel.random_routes", "needs a schedule with one chunk on each peer, and no parallel.codec of deltas");
  }
  const auto& cuts = s.parallel.cuts;
  if (cuts.empty()) return {};
  const bool rising = std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>{}) == cuts.end();
  if (std::ssize(cuts) != stages - 1 || !rising || cuts.front() < 1 || cuts.back() >= s.model.layers) {
    return bad("parallel.cuts", std::to_string(stages) + " stages need " + std::to_string(stages - 1) +
                                    " rising numbers of blocks, from 1 to " + std::to_string(s.model.layers - 1));
  }
  return {};
}

// What only the families together with other settings say; sizes are checked by the families themselves.
causeway::result<void> validate_model(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  const auto& m = s.model;
  if (m.tie == "true" && shares_no_table(s)) {
    return bad("model.tie",
               "stages whose peers step alone, or round gradients in a swarm, share no table; use auto or false, or "
               "pipelines under quorum with a flush in each step, and a comm.policy without hubs or mirrors, as diloco");
  }
  if (!m.rope_scaling.empty() && (m.rope_scaling.size() != 4 || m.family != "llama")) {
    return bad("model.rope_scaling", "takes four numbers, as 8,1,4,8192, and is for llama");
  }
  if (m.family == "gpt" && m.width > 0 && m.hidden % m.width != 0) {
    return bad("model.hidden", "of gpt is a multiple of model.width (" + std::to_string(m.width) + ")");
  }
  return {};
}

// Peers that come together again where they came together first.
causeway::result<void> validate_restart(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (!s.net.join.empty() || !s.net.static_peers.empty()) return {};
  if (s.net.peers == 1) {
    return bad("fault.policy", "restart waits for a lost peer, and one peer alone loses none; use fail_stop");
  }
  if (s.net.listen.empty()) return {};
  CAUSEWAY_ASSIGN(const auto address, causeway::net::parse_endpoint(s.net.listen));
  if (address.port != 0) return {};
  return bad("net.listen", "peers that are lost come back to it, so that it needs a port; give one, as 0.0.0.0:29500");
}

}  // namespace

causeway::result<void> validate(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  settings copy = s;
  CAUSEWAY_TRY(check_allowed(table(copy)));
  if (s.data.tokenizer == "model" && s.model.start.empty()) {
    return bad("data.tokenizer",
               "is that of a model to start from; name its folder with --model.init, or use bytes, bpe or a folder");
  }
  CAUSEWAY_TRY(validate_model(s));
  CAUSEWAY_TRY(check_preset(s));
  const policy* const chosen = find_policy(s.comm.policy);
  const bool has_momentum = s.comm.policy == "demo" || s.comm.policy == "distro";
  const bool is_optimizer = s.comm.policy == "snoo" || s.comm.policy == "dion";
  const bool is_inner = is_divisible(s.train.optimizer) || s.train.optimizer == "muon" || s.train.optimizer == "nadam" ||
                        s.train.optimizer == "basis_rotation";
  const bool is_sparse = s.comm.policy == "stella_train";
  const bool fits = is_optimizer   ? s.train.optimizer == s.comm.policy
                    : has_momentum ? s.train.optimizer == "sgd"
                    : is_sparse    ? s.train.optimizer.starts_with("sparse_")
                                   : is_inner;
  if (!fits) {
    return bad(
        "train.optimizer",
        "use adamw, muon, lamb, nadam or basis_rotation; sgd with demo and distro, which have a momentum of their own; "
        "sparse_sgd or sparse_adam with stella_train, of which few values come; the policies snoo and dion are "
        "optimizers, and set it themselves");
  }
  if (s.comm.policy == "dion" && s.comm.rank == 0) return bad("comm.rank", "use 1 or more");
  if (s.comm.policy == "dlion" && s.train.micro_batches > 1 && !is_elastic_pipeline(s) && !is_swarm(s)) {
    return bad("train.micro_batches", "batches that follow speed have any size, and are not cut; leave it out");
  }
  if (s.comm.policy == "des_loc" && !is_divisible(s.train.optimizer)) {
    return bad("train.optimizer", "des_loc averages the two moments of the optimizer; use adamw or lamb");
  }
  if (!chosen->composed && s.comm.codec != "none") {
    return bad("comm.codec", s.comm.policy + " says itself what travels; leave it out, or use diloco with this codec");
  }
  if (trains_paths(s)) CAUSEWAY_TRY(validate_paths(s));
  CAUSEWAY_TRY(check_page_place(s.watch.page));
  const bool elastic = s.fault.policy == "quorum";
  const bool has_groups = s.comm.policy == "gaia_asp" && (s.comm.group_size > 0 || s.net.region >= 0);
  if (elastic && has_groups && s.parallel.policy != "data") {
    return bad(
        s.comm.group_size > 0 ? "comm.group_size" : "net.region",
        "in pipelines and swarms whose peers come and go what a lost peer told is taken back, which a hub of gaia_asp "
        "has mixed with others' changes; leave it out, or use --parallel.policy data");
  }
  if (is_swarm(s)) CAUSEWAY_TRY(validate_swarm(s));
  if (has_servers(s)) CAUSEWAY_TRY(validate_servers(s));
  const bool hands_over = s.parallel.policy == "pipeline" && s.fault.policy == "quorum" && !steps_alone(s);
  if (s.fault.policy == "restart") CAUSEWAY_TRY(validate_restart(s));
  if (s.fault.notice > 0 && !hands_over) {
    return fail(errc::invalid_argument, "fault.notice",
                "is for pipelines under quorum whose peers make every step together; leave it out");
  }
  if (is_pipeline(s)) CAUSEWAY_TRY(validate_pipeline(s));
  if (elastic && chosen->traits.exchanges_gradients && is_inner && !has_whole_state(s.train.optimizer)) {
    return bad("train.optimizer",
               "what a newcomer is given has not all of the state of " + s.train.optimizer + ", so " + s.comm.policy +
                   " with it needs a fixed set of peers; use adamw, lamb or nadam, or a policy with local steps");
  }
  if (elastic && !s.net.static_peers.empty()) return bad("net.static_peers", "peers of a quorum run join; use --net.join");
  if (!elastic && s.run.restart) return bad("run.restart", "goes with --fault.policy quorum");
  if (!elastic && s.run.refound) return bad("run.refound", "goes with --fault.policy quorum");
  if (s.run.refound && (s.run.fresh || !s.net.join.empty())) {
    return bad("run.refound", "one machine founds the run anew, from what is there; the others join it with --run.branch");
  }
  if (s.run.branch.find_first_not_of("0123456789abcdef-") != std::string::npos) {
    return bad("run.branch", "'" + s.run.branch + "'; give what the peer that founded the run anew printed");
  }
  if (s.fault.min_peers > s.net.peers) {
    return bad("fault.min_peers", "use 1 to net.peers (" + std::to_string(s.net.peers) + ")");
  }
  if (s.model.family == "llama" && s.model.dropout > 0) return bad("model.dropout", "the llama family has none; use 0");
  if (s.train.batch % s.train.micro_batches != 0) {
    return bad("train.micro_batches", "must divide train.batch (" + std::to_string(s.train.batch) + ")");
  }
  if (s.train.added_apart && s.parallel.policy != "data") {
    return bad("train.added_apart", "is for peers that each hold the model: use --parallel.policy data, or leave it out");
  }
  CAUSEWAY_TRY(check_policy(s));
  return check_run_name(s);
}

}  // namespace app
