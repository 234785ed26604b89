// SPDX-License-Identifier: Apache-2.0
#include "fixed_run.hpp"

#include <causeway/fault/restart.hpp>
#include <causeway/net/rendezvous.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "corpus.hpp"
#include "launch.hpp"
#include "page_server.hpp"
#include "page_text.hpp"
#include "path_layout.hpp"
#include "peer_folder.hpp"
#include "report.hpp"
#include "run_folder.hpp"
#include "run_model.hpp"
#include "run_notice.hpp"
#include "server_processes.hpp"
#include "session_input.hpp"
#include "starting_model.hpp"
#include "watch_run.hpp"
#include "watched_transport.hpp"

namespace app {

unsigned default_threads(const settings& s) {
  const bool all_here = s.net.listen.empty() && s.net.join.empty() && s.net.static_peers.empty();
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return std::max(1U, cores / (all_here ? s.net.peers : 1));
}

namespace {

using causeway::errc;
using causeway::fail;

void tell_paths(const settings& s) {
  const auto paths = path_count(s);
  std::printf(
      "each text was judged by the path that its first %lld tokens are sent to, on those behind them; path P of %u is "
      "a model of its own, in peer-P: causeway generate --sample.path P\n",
      static_cast<long long>(route_prefix(s)), paths);
}

// What a finished or interrupted run leaves behind, for a person.
causeway::result<int> conclude(const session_summary& summary, const session_input& in) {
  if (in.s.quiet) return summary.interrupted ? interrupted : 0;
  if (summary.interrupted) {
    std::printf("stopped at step %llu; everything is saved. Start the same command again to go on.\n",
                static_cast<unsigned long long>(summary.step));
    return interrupted;
  }
  CAUSEWAY_TRY(write_loss_plot(in.folder + "/loss.svg", {in.folder + "/peer-0"},
                               in.s.run.name + ": " + std::to_string(in.s.net.peers) + " peers, " + in.s.comm.policy));

  const auto bytes = static_cast<double>(summary.bytes_sent);
  std::printf("\nvalidation loss %.4f nats per token (perplexity %.2f) after %s and %s, in %s\n", summary.validation,
              std::exp(summary.validation), counted(summary.step, "step").c_str(), counted(summary.round, "round").c_str(),
              human_seconds(summary.wall_seconds).c_str());
  if (trains_paths(in.s)) tell_paths(in.s);
  if (is_pipeline(in.s)) {
    std::printf("this peer sent %s on its sockets\n", human_bytes(bytes).c_str());
  } else if (in.s.net.peers > 1) {
    std::printf(
        "each peer sent %s on its sockets; averaging f32 gradients in every step would send %s, %.0f times as much\n",
        human_bytes(bytes).c_str(), human_bytes(summary.every_step_bytes).c_str(),
        summary.every_step_bytes / std::max(1.0, bytes));
  }
  if (has_servers(in.s)) {
    const causeway::traffic t = in.with_servers();
    std::printf("this peer sent %s to the servers, and received %s\n",
                human_bytes(static_cast<double>(t.bytes_sent)).c_str(),
                human_bytes(static_cast<double>(t.bytes_received)).c_str());
  }
  if (in.s.net.peers > 1) std::printf("%s\n", waiting_text(summary.blocked_seconds, summary.wall_seconds).c_str());
  std::printf("report %s/report.html, loss plot %s/loss.svg, metrics and checkpoints %s/peer-*\n\n", in.folder.c_str(),
              in.folder.c_str(), in.folder.c_str());
  causeway::io::posix_storage storage;
  const auto sample = storage.read(in.folder + "/sample.txt");
  if (sample) std::printf("%.*s\n", static_cast<int>(sample->size()), reinterpret_cast<const char*>(sample->data()));
  return 0;
}

// However it ends: a run that failed has a story, too. The peers that a launcher starts leave it to that.
struct report_at_the_end {
  explicit report_at_the_end(const settings& s) : s_{s} {}
  report_at_the_end(const report_at_the_end&) = delete;
  report_at_the_end& operator=(const report_at_the_end&) = delete;
  ~report_at_the_end() {
    if (!s_.quiet && check_run_name(s_)) (void)write_report(run_folder(s_));
  }

 private:
  const settings& s_;
};

causeway::result<session_input> make_input(settings s, std::uint64_t run_id) {
  CAUSEWAY_TRY(make_run_folder(s));
  const std::string folder = run_folder(s);
  CAUSEWAY_TRY(agree_on_model(s, folder));
  CAUSEWAY_ASSIGN(corpus data, prepare_corpus(s, folder));
  return session_input{s, std::move(data), folder, run_id, [] { return stop_requested().load(); }};
}

// One process as a peer of a fixed set, from attempt to attempt.
class fixed_run {
 public:
  fixed_run(settings& s, const origins& from, stop_watch& watch) : s_{s}, from_{from}, watch_{watch} {}

  causeway::result<int> run() {
    using causeway::fault::restart;
    return causeway::fault::with_restarts([this](const restart& progress) { return attempt(progress); },
                                          {.in_vain = s_.fault.policy == "restart" ? s_.fault.restarts : 0});
  }

 private:
  causeway::result<int> attempt(const causeway::fault::restart& progress);
  causeway::result<int> as_joiner();
  causeway::result<int> as_host();
  causeway::result<int> train_as_member(session_input in, causeway::net::membership* member);
  causeway::result<session_input> input(const settings& s, std::uint64_t run_id) const;
  causeway::result<void> claim(const std::string& folder, std::uint32_t self);

  settings& s_;
  const origins& from_;
  stop_watch& watch_;
  causeway::fault::restart progress_;
  std::optional<peer_folder> mine_;            ///< held between attempts, too: nobody else may train here
  std::unique_ptr<server_processes> servers_;  ///< on this machine; they end after the peers
  std::optional<causeway::error> last_;
  unsigned attempts_ = 0;
};

std::string what_happened(const causeway::error& e) {
  const std::string who = e.where.empty() ? "another peer" : e.where;
  return who + (e.code == errc::peer_lost ? " was lost" : e.code == errc::timeout ? " was silent" : " is not reached");
}

causeway::result<int> fixed_run::attempt(const causeway::fault::restart& progress) {
  if (stop_requested()) return fail(errc::cancelled, run_folder(s_), "stopped on request");
  progress_ = progress;
  if (++attempts_ > 1) {
    s_.run.fresh = false;
    if (!s_.quiet) {
      std::printf("%s; all go on from their newest checkpoints (attempt %u)\n", what_happened(*last_).c_str(), attempts_);
      std::fflush(stdout);
    }
  }
  auto status = s_.net.join.empty() ? as_host() : as_joiner();
  if (!status) last_ = status.error();
  return status;
}

causeway::result<session_input> fixed_run::input(const settings& s, std::uint64_t run_id) const {
  CAUSEWAY_ASSIGN(session_input in, make_input(s, run_id));
  in.reached = [progress = progress_](std::uint64_t step) { progress.reached(step); };
  return in;
}

causeway::result<void> fixed_run::claim(const std::string& folder, std::uint32_t self) {
  if (mine_ && mine_->index() == self) return {};
  mine_.reset();
  CAUSEWAY_ASSIGN(peer_folder folder_of_peer, peer_folder::claim(folder, self));
  mine_.emplace(std::move(folder_of_peer));
  return {};
}

// A peer that is in: trains to the end. Destroying the environment closes its connections cleanly.
causeway::result<int> fixed_run::train_as_member(session_input in, causeway::net::membership* member) {
  const std::uint32_t self = member == nullptr ? 0 : member->transport.self();
  CAUSEWAY_TRY(claim(in.folder, self));
  CAUSEWAY_ASSIGN(const page_server page, serve_page(in.s, in.folder));
  causeway::environment env;
  const std::function<void()> peers_end = member == nullptr ? [] {} : member->transport.interrupter();
  in.ended_by = [this, peers_end](const std::function<void()>& servers_end) {
    watch_.when_patience_ends([peers_end, servers_end] { peers_end(), servers_end(); });
  };
  if (member != nullptr) {
    watch_.when_patience_ends(peers_end);
    const auto other = self == 0 ? 1U : 0U;
    env.exchange = causeway::collective::tuned_for_streams({}, member->transport.streams(other));
    watch_.when_asked([waiting = member->transport] { return waiting.describe_waits(); });
    env.transport = watched_transport{std::move(member->transport), in.links};
  }
  const struct silence {  // before the transport says goodbye
    stop_watch& watch;
    ~silence() { watch.when_asked({}); }
  } guard{watch_};
  auto summary = run_model({in, std::move(env)});
  if (!summary) return summary.error();
  return conclude(*summary, in);
}

// The number of the peer whose folder is here and that nobody is now: somebody comes back to it. The first peer hosts.
std::int64_t index_here(const settings& s) {
  std::int64_t found = -1;
  for (const sibling& peer : peers_on_disk(run_folder(s))) {
    if (peer.running || peer.index == 0) continue;
    if (found >= 0) return -1;
    found = peer.index;
  }
  return found < s.net.peers ? found : -1;
}

causeway::result<int> fixed_run::as_joiner() {
  if (s_.net.index < 0 && s_.fault.policy == "restart") s_.net.index = index_here(s_);
  CAUSEWAY_ASSIGN(causeway::net::membership member, join_run(s_, from_));
  CAUSEWAY_TRY(validate(s_));
  s_.net.index = member.transport.self();  // whoever comes back is the same peer
  CAUSEWAY_ASSIGN(session_input in, input(s_, member.run_id));
  return train_as_member(std::move(in), &member);
}

causeway::result<int> fixed_run::as_host() {
  child_peers children;
  watch_.when_stopping([&] { children.stop(); });
  const struct detach {  // before the children go
    stop_watch& watch;
    ~detach() { watch.when_stopping({}); }
  } guard{watch_};
  const std::uint64_t run_id = run_id_of(s_);
  CAUSEWAY_ASSIGN(session_input in, input(s_, run_id));
  if (has_servers(in.s) && in.s.servers.at.empty()) {  // they outlive an attempt
    if (!servers_) {
      CAUSEWAY_ASSIGN(servers_, server_processes::start(in.s, in.folder));
    }
    in.s.servers.at = servers_->addresses();
  }
  if (!in.s.net.static_peers.empty()) {
    CAUSEWAY_ASSIGN(causeway::net::membership member, connect_run(in.s, run_id));
    return train_as_member(std::move(in), &member);
  }
  if (in.s.net.peers == 1) return train_as_member(std::move(in), nullptr);
  CAUSEWAY_ASSIGN(auto pieces, tell_newcomers(in.s, in.folder, in.data));
  CAUSEWAY_ASSIGN(causeway::net::membership member, host_run(in.s, run_id, children, std::move(pieces)));
  CAUSEWAY_ASSIGN(const int status, train_as_member(std::move(in), &member));
  const auto others = children.wait();
  if (status != 0) return status;
  if (!others) return others.error();
  return status;
}

}  // namespace

causeway::result<int> train_fixed(settings& s, const origins& from, stop_watch& watch) {
  const report_at_the_end report{s};  // after the children have ended
  if (s.net.threads == 0) s.net.threads = default_threads(s);
  return fixed_run{s, from, watch}.run();
}

// A rank of an MPI job in which each is a peer.
causeway::result<int> train_as_rank(settings s, mpi_job& job, stop_watch& watch) {
  const std::uint64_t run_id = run_id_of(s);
  const std::uint32_t self = static_cast<std::uint32_t>(s.net.index);
  CAUSEWAY_ASSIGN(session_input in, make_input(std::move(s), run_id));
  CAUSEWAY_ASSIGN(const peer_folder mine, peer_folder::claim(in.folder, self));
  CAUSEWAY_ASSIGN(const page_server page, serve_page(in.s, in.folder));
  causeway::environment env;
  CAUSEWAY_ASSIGN(causeway::net::any_transport over, job.transport());
  watch.when_patience_ends(job.interrupter());
  env.transport = watched_transport{std::move(over), in.links};
  auto summary = run_model({in, std::move(env)});
  watch.when_patience_ends({});
  if (!summary) return summary.error();
  return conclude(*summary, in);
}

}  // namespace app
