// SPDX-License-Identifier: Apache-2.0
#include "mpi_job.hpp"

#include <cstdlib>
#include <optional>
#include <utility>

#include "launch.hpp"
#include "launched_rank.hpp"

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

/// Weak: what this process leads, while its job lasts.
std::weak_ptr<mpi_job::state>& led() {
  static std::weak_ptr<mpi_job::state> it;
  return it;
}

/// All ranks train what the first one was told to.
result<void> agree_on_run(settings& s, const origins& from, const net::mpi_world& world) {
  CAUSEWAY_ASSIGN(const std::string shared, world.tell(0, to_toml(s, true)));
  CAUSEWAY_TRY(take_over(s, from, shared, "rank 0 of this job"));
  return {};
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
  (rank == 0 ? s.net.listen : s.net.join) = host + ":" + std::to_string(port);
  return {};
}

result<void> form_sites(mpi_job::state& job, settings& s, const std::vector<std::string>& hosts) {
  CAUSEWAY_ASSIGN(const auto site_of, plan_sites(s.net.sites, s.net.site_of, hosts));
  CAUSEWAY_ASSIGN(job.group, job.world.split(site_of[job.world.rank()]));
  if (s.net.sites > 1 && (!s.net.listen.empty() || !s.net.join.empty())) {
    return fail(
        errc::invalid_argument, "net.sites",
        "several sites of one job meet by themselves; leave net.listen and net.join out, or start a job for each site "
        "with --net.sites 1");
  }
  if (s.parallel.policy != "data") {
    return fail(errc::unsupported, "net.sites", "the ranks of a site share a batch: use --parallel.policy data");
  }
  const std::uint32_t rank = job.world.rank();
  return meet_leaders(s, rank, hosts, site_of[rank], job.group->rank() == 0);
}

}  // namespace

mpi_job::mpi_job() = default;
mpi_job::mpi_job(mpi_job&&) noexcept = default;
mpi_job& mpi_job::operator=(mpi_job&&) noexcept = default;
mpi_job::~mpi_job() = default;

result<mpi_job> mpi_job::enter(settings& s, const origins& from) {
  mpi_job job;
  const bool wants_sites = s.net.sites > 0;
  const bool meets_otherwise =
      !s.net.listen.empty() || !s.net.join.empty() || !s.net.static_peers.empty() || s.fault.policy == "quorum";
  if (!wants_sites && (!started_by_mpi() || meets_otherwise || is_swarm(s))) return job;
  if (!started_by_mpi()) {
    return fail(errc::invalid_argument, "net.sites",
                "says how the ranks of an MPI job form sites, and no mpirun or srun --mpi started this process");
  }
  // Who computes for another waits for it as long as it takes: if that dies, the launcher ends all of the job.
  CAUSEWAY_ASSIGN(net::mpi_world world, net::mpi_world::enter({.patience = std::chrono::hours{24 * 365}}));
  job.state_ = std::make_shared<state>(state{std::move(world)});
  const net::mpi_world& all = job.state_->world;
  const auto peers = from.find("net.peers");
  const std::uint32_t made = wants_sites ? s.net.sites : all.size();
  if (peers != from.end() && peers->second.starts_with("--") && made != 1 && s.net.peers != made) {
    return fail(errc::invalid_argument, peers->second,
                "is " + std::to_string(s.net.peers) + ", but this job has " + std::to_string(made) +
                    (wants_sites ? " sites, which are" : " ranks, which are") + " the peers of one run; leave it out");
  }
  CAUSEWAY_TRY(agree_on_run(s, from, all));
  CAUSEWAY_ASSIGN(const auto hosts, all.hosts());
  share_cores(s, static_cast<std::uint32_t>(std::count(hosts.begin(), hosts.end(), hosts[all.rank()])));
  if (all.rank() > 0 && !from.contains("quiet")) s.quiet = true;
  if (wants_sites) {
    CAUSEWAY_TRY(form_sites(*job.state_, s, hosts));
    CAUSEWAY_ASSIGN(job.state_->site, mpi_site::open(*job.state_->group, {.same_bits = s.net.same_bits}));
    if (job.state_->group->rank() == 0) led() = job.state_;
  } else {
    s.net.peers = all.size();
    s.net.index = all.rank();
    CAUSEWAY_ASSIGN(job.state_->transport, net::mpi_transport::open(all, {.own_sums = !s.net.same_bits}));
  }
  return job;
}

bool mpi_job::ranks_are_peers() const { return state_ && state_->transport; }
bool mpi_job::computes_for_another() const { return state_ && state_->group && state_->group->rank() > 0; }
result<net::any_transport> mpi_job::transport() { return net::any_transport{*state_->transport}; }
std::function<void()> mpi_job::interrupter() const { return state_->world.interrupter(); }

result<int> mpi_job::serve(settings s) {
  CAUSEWAY_ASSIGN(const std::string shared, state_->group->tell(0, ""));  // of a run that was joined, the run's
  origins ignored;
  CAUSEWAY_TRY(apply_toml(shared, "rank 0 of this site", s, ignored));
  CAUSEWAY_ASSIGN(const std::string vocabulary, state_->group->tell(0, ""));
  CAUSEWAY_ASSIGN(chosen_model model, make_model(s, std::atoll(vocabulary.c_str())));
  CAUSEWAY_TRY(choose_ways(*state_->site, *state_->group, "", model.parameters().gradients().size_bytes()));
  CAUSEWAY_TRY(serve_site(*state_->site, model));
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

result<chosen_model> share_with_site(chosen_model model, settings s, std::int64_t vocabulary, const std::string& folder) {
  const auto job = led().lock();
  if (!job || job->group->size() == 1) return model;
  CAUSEWAY_TRY(job->group->tell(0, to_toml(s, true)));
  CAUSEWAY_TRY(job->group->tell(0, std::to_string(vocabulary)));
  const std::string kept = folder + "/site-" + std::to_string(std::max<std::int64_t>(s.net.index, 0)) + ".txt";
  CAUSEWAY_TRY(choose_ways(*job->site, *job->group, kept, model.parameters().gradients().size_bytes()));
  return make_site_model(std::move(model), job->site);
}

#else

struct mpi_job::state {};
mpi_job::mpi_job() = default;
mpi_job::mpi_job(mpi_job&&) noexcept = default;
mpi_job& mpi_job::operator=(mpi_job&&) noexcept = default;
mpi_job::~mpi_job() = default;
result<mpi_job> mpi_job::enter(settings& s, const origins&) {
  if (s.net.sites == 0) return mpi_job{};  // ranks meet over TCP: launched_rank.hpp
  return fail(errc::unsupported, "net.sites",
              "this program was built without MPI; install libopenmpi-dev or libmpich-dev (Debian) and build it again");
}
bool mpi_job::ranks_are_peers() const { return false; }
bool mpi_job::computes_for_another() const { return false; }
result<causeway::net::any_transport> mpi_job::transport() { return fail(errc::unsupported, "MPI", "is not in this build"); }
std::function<void()> mpi_job::interrupter() const { return {}; }
result<int> mpi_job::serve(settings) { return fail(errc::unsupported, "MPI", "is not in this build"); }
result<void> mpi_job::leave(bool) { return {}; }
result<chosen_model> share_with_site(chosen_model model, settings, std::int64_t, const std::string&) { return model; }
#endif

}  // namespace app
