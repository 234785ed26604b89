// SPDX-License-Identifier: Apache-2.0
#include "mpi_job.hpp"

#include <cstdlib>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "launch.hpp"
#include "launched_rank.hpp"
#include "session_input.hpp"

#ifdef CAUSEWAY_HAS_MPI
#include <causeway/collective/mpi_site.hpp>
#include <causeway/net/mpi_transport.hpp>
#include <causeway/net/mpi_world.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

#include "site_choices.hpp"
#include "site_model.hpp"
#include "site_plan.hpp"
#endif

namespace app {

using causeway::errc;
using causeway::fail;
using causeway::result;

#ifdef CAUSEWAY_HAS_MPI
namespace net = causeway::net;
using causeway::collective::mpi_site;

struct mpi_job::state {
  net::mpi_world world;
  std::optional<causeway::error> agreed{};  ///< what all ranks end with
  std::uint32_t speaker = 0;                ///< the rank that says so
  bool began = false;                       ///< all are ready to train
  std::optional<net::mpi_transport> transport{};
  std::shared_ptr<mpi_site> site{};
  std::optional<net::mpi_world> group{};  ///< the ranks of this site
};

namespace {

/// Variables alone may be remains in a shell; the connection to the launcher is not.
bool started_by_mpi() {
  const auto set = [](const char* name) { return variable(name).has_value(); };
  return (set("OMPI_COMM_WORLD_SIZE") && set("PMIX_RANK")) || (set("PMI_SIZE") && (set("PMI_FD") || set("PMI_PORT"))) ||
         (set("SLURM_STEP_ID") && set("PMIX_RANK"));
}

/// Who computes for another waits for it as long as it takes: if that dies, the launcher ends all of the job.
result<net::mpi_world> enter_world() { return net::mpi_world::enter({.patience = std::chrono::hours{24 * 365}}); }

/// Weak: the job of this process, while it lasts.
std::weak_ptr<mpi_job::state>& own_job() {
  static std::weak_ptr<mpi_job::state> it;
  return it;
}

/// By the launcher's word, where MPI itself cannot say it.
bool is_first_of_host() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const auto rank = variable(name)) return *rank == "0";
  }
  return true;
}

/// All ranks go on, or none.
result<void> agree(mpi_job::state& job, const result<void>& mine) {
  constexpr std::uint32_t nobody = causeway::error::nobody;
  std::uint32_t speaker = nobody;
  auto all = job.world.agree(mine, &speaker);
  if (!all && speaker != nobody) {
    job.speaker = speaker;
    job.agreed = all.error();
  }
  return all;
}

/// A command that cannot work as it was given, whatever else the error may mean.
result<void> as_given(const result<void>& of) {
  if (of) return {};
  return fail(errc::invalid_argument, of.error().where, of.error().message);
}

result<void> check_peers(const settings& s, const origins& from, std::uint32_t ranks) {
  const auto peers = from.find("net.peers");
  const bool wants_sites = s.net.sites > 0;
  const std::uint32_t made = wants_sites ? s.net.sites : ranks;
  if (peers == from.end() || !peers->second.starts_with("--") || made == 1 || s.net.peers == made) return {};
  return fail(errc::invalid_argument, peers->second,
              "is " + std::to_string(s.net.peers) + ", but this job has " + std::to_string(made) +
                  (wants_sites ? " sites, which are" : " ranks, which are") + " the peers of one run; leave it out");
}

/// All ranks train what the first one was told to.
result<void> agree_on_run(mpi_job::state& job, settings& s, const origins& from) {
  CAUSEWAY_TRY(agree(job, check_peers(s, from, job.world.size())));
  const std::string sites = std::to_string(s.net.sites) + (s.net.site_of.empty() ? "" : " as " + s.net.site_of);
  CAUSEWAY_ASSIGN(const std::string theirs, job.world.tell(0, sites));
  CAUSEWAY_ASSIGN(const std::string shared, job.world.tell(0, to_toml(s, true)));
  const bool same = theirs == sites;
  return agree(
      job, same ? as_given(take_over(s, from, shared, "rank 0 of this job"))
                : fail(errc::invalid_argument, "net.sites",
                       "is " + sites + " here and " + theirs + " in rank 0 of this job; give all ranks the same command"));
}

/// The leader of the first site waits for those of the others, at an address that they are told.
result<void> meet_leaders(settings& s, std::uint32_t rank, const std::vector<std::string>& hosts, std::uint32_t site,
                          bool leads) {
  if (s.net.sites == 1) return {};
  const bool one_host = std::count(hosts.begin(), hosts.end(), hosts[0]) == static_cast<std::ptrdiff_t>(hosts.size());
  const std::string host = variable("MASTER_ADDR").value_or(one_host ? "127.0.0.1" : hosts[0]);
  CAUSEWAY_ASSIGN(const std::uint16_t port, port_of_first_rank());
  s.net.peers = s.net.sites;
  if (!leads) return {};
  s.net.index = site;
  meet_at(s, rank == 0, {host, port});
  return {};
}

result<std::vector<std::uint32_t>> plan(const settings& s, const std::vector<std::string>& hosts) {
  if (s.net.sites > 1 && (!s.net.listen.empty() || !s.net.join.empty())) {
    return fail(
        errc::invalid_argument, "net.sites",
        "several sites of one job meet by themselves; leave net.listen and net.join out, or start a job for each site "
        "with --net.sites 1");
  }
  if (s.parallel.policy != "data") {
    return fail(errc::invalid_argument, "net.sites", "the ranks of a site share a batch: use --parallel.policy data");
  }
  return plan_sites(s.net.sites, s.net.site_of, hosts);
}

result<void> form_sites(mpi_job::state& job, settings& s, const std::vector<std::string>& hosts) {
  auto site_of = plan(s, hosts);
  CAUSEWAY_TRY(agree(job, site_of ? result<void>{} : site_of.error()));
  const std::uint32_t rank = job.world.rank(), site = (*site_of)[rank];
  CAUSEWAY_ASSIGN(job.group, job.world.split(site));
  CAUSEWAY_ASSIGN(job.site, mpi_site::open(*job.group, {.same_bits = s.net.same_bits}));
  return agree(job, meet_leaders(s, rank, hosts, site, job.group->rank() == 0));
}

/// Whether `command` is one that all ranks of a job begin with: to train, or a misspelt one.
bool is_for_jobs(const std::string& command) {
  return command == "train" || command == "join" || (command != "peer" && find_command(command) == nullptr);
}

}  // namespace

mpi_job::mpi_job(const std::string& command) : expected_{is_for_jobs(command)} {}
mpi_job::~mpi_job() = default;

result<void> mpi_job::enter(settings& s, const origins& from) {
  const bool wants_sites = s.net.sites > 0;
  const bool meets_otherwise =
      !s.net.listen.empty() || !s.net.join.empty() || !s.net.static_peers.empty() || s.fault.policy == "quorum";
  expected_ = wants_sites || (started_by_mpi() && !meets_otherwise && !is_swarm(s));
  if (!expected_) return {};
  if (s.fault.policy == "restart") {
    return fail(errc::invalid_argument, "fault.policy",
                "the ranks of an MPI job end together, and none of them restarts; use fail_stop, and start the job again");
  }
  if (!started_by_mpi()) {
    return fail(errc::invalid_argument, "net.sites",
                "says how the ranks of an MPI job form sites, and no mpirun or srun --mpi started this process");
  }
  CAUSEWAY_ASSIGN(net::mpi_world world, enter_world());
  state_ = std::make_shared<state>(state{std::move(world)});
  own_job() = state_;
  const net::mpi_world& all = state_->world;
  CAUSEWAY_TRY(agree_on_run(*state_, s, from));
  CAUSEWAY_ASSIGN(const auto hosts, all.hosts());
  share_cores(s, static_cast<std::uint32_t>(std::count(hosts.begin(), hosts.end(), hosts[all.rank()])));
  if (all.rank() > 0 && !from.contains("quiet")) s.quiet = true;
  if (wants_sites) return form_sites(*state_, s, hosts);
  s.net.peers = all.size();
  s.net.index = all.rank();
  CAUSEWAY_ASSIGN(state_->transport, net::mpi_transport::open(all, {.own_sums = !s.net.same_bits}));
  return {};
}

bool mpi_job::ranks_are_peers() const { return state_ && state_->transport; }
bool mpi_job::computes_for_another() const { return state_ && state_->group && state_->group->rank() > 0; }
result<net::any_transport> mpi_job::transport() { return net::any_transport{*state_->transport}; }
std::function<void()> mpi_job::interrupter() const { return state_->world.interrupter(); }

result<int> mpi_job::serve(settings s) {
  CAUSEWAY_TRY(agree(*state_, {}));  // with begin_with_job
  CAUSEWAY_ASSIGN(const std::string text, state_->world.tell(0, ""));
  CAUSEWAY_ASSIGN(const std::string shared, state_->group->tell(0, ""));  // of a run that was joined, the run's
  CAUSEWAY_ASSIGN(const std::string vocabulary, state_->group->tell(0, ""));
  origins ignored;
  const auto make = [&]() -> result<chosen_model> {
    CAUSEWAY_TRY(apply_toml(shared, "rank 0 of this site", s, ignored));
    return make_model(s, std::atoll(vocabulary.c_str()));
  };
  auto model = make();
  CAUSEWAY_TRY(agree(*state_, model ? result<void>{} : model.error()));
  state_->began = true;
  CAUSEWAY_TRY(choose_ways(*state_->site, *state_->group, "", model->parameters().gradients().size_bytes()));
  CAUSEWAY_TRY(serve_site(*state_->site, *model));
  return 0;
}

result<void> mpi_job::leave(bool told_to_stop) {
  if (!state_) return {};
  state_->transport.reset();
  if (state_->site && state_->group->rank() == 0) CAUSEWAY_TRY(dismiss_site(*state_->site));
  state_->site.reset();
  if (!told_to_stop) return state_->world.leave();
  (void)state_->world.leave(std::chrono::minutes{1});
  return {};
}

int mpi_job::end(const causeway::error& mine, last_words say) {
  if (!expected_ || !started_by_mpi()) return say(mine, true);
  // Ranks that make the same mistake make it together; one that fails in training is mostly alone.
  std::optional<last_resort> limit{std::in_place, std::chrono::seconds{state_ && state_->began ? 2 : 20},
                                   [&] { std::_Exit(say(mine, true)); }};
  if (!state_) {
    auto world = enter_world();
    limit.reset();
    if (!world) return end_alone(mine, is_first_of_host(), say);
    state_ = std::make_shared<state>(state{std::move(*world)});
  }
  if (!state_->agreed) (void)agree(*state_, mine);
  limit.reset();
  if (!state_->agreed) return say(mine, true);
  const int status = say(*state_->agreed, state_->speaker == state_->world.rank());
  state_->transport.reset();
  state_->site.reset();
  (void)state_->world.leave(std::chrono::seconds{10});
  return status;
}

result<chosen_model> begin_with_job(chosen_model model, const session_input& in) {
  const auto job = own_job().lock();
  if (!job) return model;
  CAUSEWAY_TRY(agree(*job, {}));
  const std::string mine = std::to_string(in.data.hash);
  CAUSEWAY_ASSIGN(const std::string theirs, job->world.tell(0, mine));
  if (job->group) {
    settings s = in.s;
    CAUSEWAY_TRY(job->group->tell(0, to_toml(s, true)));
    CAUSEWAY_TRY(job->group->tell(0, std::to_string(in.data.codec.vocabulary())));
  }
  CAUSEWAY_TRY(agree(*job, theirs == mine
                               ? result<void>{}
                               : fail(errc::invalid_argument, "data.path",
                                      "this rank trains on another text or tokenizer than rank 0; give all ranks the "
                                      "same text with --data.path")));
  job->began = true;
  if (!job->group || job->group->size() == 1) return model;
  const std::string kept = in.folder + "/site-" + std::to_string(std::max<std::int64_t>(in.s.net.index, 0)) + ".txt";
  CAUSEWAY_TRY(choose_ways(*job->site, *job->group, kept, model.parameters().gradients().size_bytes()));
  return make_site_model(std::move(model), job->site);
}

#else

struct mpi_job::state {};
mpi_job::mpi_job(const std::string&) : expected_{false} {}
mpi_job::~mpi_job() = default;
result<void> mpi_job::enter(settings& s, const origins&) {
  if (s.net.sites == 0) return {};  // ranks meet over TCP: launched_rank.hpp
  return fail(errc::unsupported, "net.sites",
              "this program was built without MPI; install libopenmpi-dev or libmpich-dev (Debian) and build it again");
}
bool mpi_job::ranks_are_peers() const { return false; }
bool mpi_job::computes_for_another() const { return false; }
result<causeway::net::any_transport> mpi_job::transport() { return fail(errc::unsupported, "MPI", "is not in this build"); }
std::function<void()> mpi_job::interrupter() const { return {}; }
result<int> mpi_job::serve(settings) { return fail(errc::unsupported, "MPI", "is not in this build"); }
result<void> mpi_job::leave(bool) { return {}; }
int mpi_job::end(const causeway::error& mine, last_words say) { return say(mine, true); }
result<chosen_model> begin_with_job(chosen_model model, const session_input&) { return model; }
#endif

}  // namespace app
