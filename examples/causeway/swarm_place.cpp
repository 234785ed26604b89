// SPDX-License-Identifier: Apache-2.0
#include "swarm_place.hpp"

#include <causeway/core/rng.hpp>
#include <causeway/io/file.hpp>
#include <causeway/stage/routing_planned.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "policies.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
using causeway::errc;
using causeway::fail;

struct load {
  std::uint32_t peers = 0;
  double speed = 0;
};

// A founder is the peer with its stage's number: it is there from the beginning, and is the only one of that number.
bool may_found(const settings& s, const peer_folder& mine, std::uint32_t stage) {
  return s.net.join.empty() && mine.index() == stage;
}

// What the folders of this machine say of a stage.
struct stage_on_disk {
  std::vector<std::string> addresses;
  bool known = false;  ///< somebody has a record of it
};
stage_on_disk look_for_stage(const std::string& run_folder, const peer_folder& mine, std::uint32_t stage) {
  stage_on_disk found;
  for (const sibling& other : peers_on_disk(run_folder)) {
    const std::string folder = stage_folder(run_folder + "/peer-" + std::to_string(other.index), stage);
    std::error_code ignored;
    found.known = found.known || fs::exists(folder + "/record", ignored);
    std::string address;
    std::ifstream{folder + "/address"} >> address;
    if (other.index != mine.index() && !address.empty()) found.addresses.push_back(address);
  }
  return found;
}

causeway::result<std::uint32_t> which_stage(const settings& s, const peer_folder& mine,
                                            std::span<const swarm_assignment> assignments) {
  const std::uint32_t stages = stages_of(s);
  if (s.parallel.stage >= 0) return static_cast<std::uint32_t>(s.parallel.stage);
  if (const auto before = stage_before(mine); before && *before < stages) return *before;
  if (s.net.join.empty()) return mine.index() % stages;
  if (const auto most = neediest(assignments, stages)) return *most;
  return fail(errc::not_found, s.net.join, "it serves no stage yet; join when the run trains");
}

}  // namespace

std::uint32_t stages_of(const settings& s) { return s.parallel.stages == 0 ? 2 : s.parallel.stages; }

causeway::nn::block_range blocks_of(const settings& s, std::uint32_t stage) {
  const std::int64_t stages = stages_of(s);
  return {s.model.layers * stage / stages, s.model.layers * (stage + 1) / stages};
}

causeway::result<void> check_paths(const settings& s) {
  namespace routing = causeway::stage::routing;
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  const bool planned = s.parallel.router == "planned";
  if (planned == s.parallel.paths.empty()) {
    return bad("parallel.paths", "and --parallel.router planned go together; `causeway plan --skip` writes paths");
  }
  if (!planned) return {};
  if (steps_alone(s)) return bad("parallel.router", "peers that take local steps leave no stage out; use another router");
  const auto paths = routing::parse_paths(s.parallel.paths);
  if (!paths) return bad("parallel.paths", paths.error().message);
  const auto fit = routing::check(*paths, stages_of(s));
  return fit ? fit : bad("parallel.paths", fit.error().message);
}

std::uint32_t founders_of(const settings& s, std::uint32_t stage) {
  const std::uint32_t stages = stages_of(s);
  return s.net.peers / stages + (stage < s.net.peers % stages ? 1 : 0);
}

std::uint64_t stage_run_id(std::uint64_t run_id, std::uint32_t stage) { return causeway::mix(run_id, stage) | 1U; }

std::string stage_folder(const std::string& peer_folder, std::uint32_t stage) {
  return peer_folder + "/stage-" + std::to_string(stage);
}

std::string stage_journal(std::uint32_t stage) { return "journal-stage-" + std::to_string(stage) + ".txt"; }

std::optional<std::uint32_t> stage_before(const peer_folder& mine) {
  std::ifstream file{mine.path() + "/stage"};
  std::uint32_t stage = 0;
  if (!(file >> stage)) return std::nullopt;
  return stage;
}

causeway::result<void> keep_stage(const peer_folder& mine, std::uint32_t stage) {
  causeway::io::posix_storage storage;
  const std::string text = std::to_string(stage) + "\n";
  return storage.write_atomic(mine.path() + "/stage", causeway::io::produce(text));
}

causeway::result<chosen_stage> choose_stage(const settings& s, const std::string& run_folder, const peer_folder& mine,
                                            std::span<const swarm_assignment> assignments) {
  chosen_stage found;
  CAUSEWAY_ASSIGN(found.stage, which_stage(s, mine, assignments));
  const std::string own = stage_folder(mine.path(), found.stage);
  auto disk = look_for_stage(run_folder, mine, found.stage);
  const bool founds = may_found(s, mine, found.stage) && !disk.known;
  if (founds && fs::exists(own + "/rounds")) {
    return fail(errc::corrupt, own,
                "holds rounds of this stage but no record of who is in it; join the others with causeway join, or start "
                "over with --run.fresh true");
  }
  if (!founds) found.mates = std::move(disk.addresses);
  for (const swarm_assignment& assignment : assignments) {
    if (assignment.stage == found.stage) found.mates.push_back(assignment.address);
  }
  if (founds || !found.mates.empty() || fs::exists(own + "/record")) return found;
  return fail(errc::not_found, "stage " + std::to_string(found.stage),
              "nobody serves it, and its weights are where its peers' folders are: start one of them again there, or serve "
              "another stage with --parallel.stage");
}

causeway::parallel::swarm_options swarm_options_of(const settings& s, std::uint64_t run_id, std::uint32_t stage) {
  return {.run = run_id,
          .stage = stage,
          .stages = stages_of(s),
          .micro_batches = s.train.micro_batches,
          .local_steps = steps_alone(s) ? static_cast<std::uint32_t>(most_steps_between(s)) : 0,
          .steps = s.train.steps,
          .dial = {},
          .rebalance_every = std::chrono::seconds{s.parallel.rebalance_every}};
}

std::optional<std::uint32_t> neediest(std::span<const swarm_assignment> assignments, std::uint32_t stages) {
  std::vector<load> loads(stages);
  bool all_measured = true;
  for (const swarm_assignment& assignment : assignments) {
    if (assignment.stage >= stages) continue;
    load& l = loads[assignment.stage];
    ++l.peers;
    all_measured = all_measured && assignment.seconds > 0;
    if (assignment.seconds > 0) l.speed += 1 / assignment.seconds;
  }
  std::optional<std::uint32_t> best;
  const auto has_less = [&](const load& a, const load& b) { return all_measured ? a.speed < b.speed : a.peers < b.peers; };
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    if (loads[stage].peers > 0 && (!best || has_less(loads[stage], loads[*best]))) best = stage;
  }
  return best;
}

}  // namespace app
