// SPDX-License-Identifier: Apache-2.0
#include "supervise.hpp"

#include <causeway/io/file.hpp>
#include <causeway/net/endpoint.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "addresses.hpp"
#include "corpus.hpp"
#include "elastic_run.hpp"
#include "launch.hpp"
#include "metrics.hpp"
#include "page_text.hpp"
#include "peer_folder.hpp"
#include "peer_report.hpp"
#include "refounding.hpp"
#include "run_folder.hpp"
#include "standing_run.hpp"
#include "swarm_place.hpp"
#include "watch_run.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto look_every = 50ms;

/// One peer of this machine.
struct place {
  std::uint32_t index = 0;
  pid_t process = 0;      ///< our child; 0: none
  bool foreign = false;   ///< runs, but an earlier launcher started it
  bool done = false;      ///< trained to the end
  bool over = false;      ///< ended, and is not to be started again
  bool too_late = false;  ///< was told to end, because the others have
  unsigned quick_deaths = 0;
  clock::time_point started{};
  std::optional<clock::time_point> start_at{};
  std::streamoff read = 0;  ///< of rounds.jsonl

  [[nodiscard]] bool running() const { return process != 0 || foreign; }
};

class supervisor {
 public:
  supervisor(settings s, stop_watch& watch) : s_{std::move(s)}, folder_{run_folder(s_)}, watch_{watch}, line_{s_.quiet} {
    watch_.when_stopping([this] { stop_all(); });
  }
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;
  ~supervisor() { watch_.when_stopping({}); }

  causeway::result<int> run() {
    if (s_.run.refound) CAUSEWAY_TRY(refound_run(s_, folder_));
    CAUSEWAY_TRY(agree_on_settings(s_, folder_));
    {
      CAUSEWAY_ASSIGN(const corpus prepared, prepare_corpus(s_, folder_));  // once, not once per peer
    }
    CAUSEWAY_ASSIGN(const page_server page, serve_page(s_, folder_));
    find_running();
    const auto began = start_missing();
    if (!began && !refusal_) return began.error();
    while (!refusal_ &&
           std::any_of(places_.begin(), places_.end(), [](const place& p) { return p.running() || p.start_at; })) {
      std::this_thread::sleep_for(look_every);
      reap();
      CAUSEWAY_TRY(restart_due());
      end_those_too_late();
      show_rounds();
      say_why_it_stands();
    }
    if (refusal_) return end_refused();
    show_rounds();
    line_.finish();
    if (const auto written = write_report(folder_); !written) {
      std::fprintf(stderr, "causeway: %s\n", written.error().text().c_str());
    }
    return conclude();
  }

 private:
  [[nodiscard]] std::string folder_of(const place& p) const { return folder_ + "/peer-" + std::to_string(p.index); }

  // ---- starting -----------------------------------------------------------------------------------------------------

  void find_running() {
    for (std::uint32_t i = 0; i < s_.net.peers; ++i) places_.push_back({.index = i});
    for (const sibling& found : peers_on_disk(folder_)) {
      if (found.index >= places_.size()) continue;
      place& p = places_[found.index];
      p.foreign = found.running;
      std::ifstream rounds{folder_of(p) + "/rounds.jsonl", std::ios::ate};
      if (rounds) p.read = rounds.tellg();
      if (!s_.run.refound) reached_ = std::max(reached_, newest_round(folder_of(p)));
      if (found.running) std::printf("peer %u runs already (pid %d)\n", p.index, static_cast<int>(found.process));
    }
  }

  // The first peer founds the run, or one of each stage founds that; the others need their addresses.
  [[nodiscard]] std::uint32_t founders() const { return is_swarm(s_) ? stages_of(s_) : 1; }

  causeway::result<void> start_missing() {
    for (place& p : places_) {
      if (p.running()) continue;
      CAUSEWAY_TRY(start(p));
      if (p.index < founders()) CAUSEWAY_TRY(wait_for_address(p));
    }
    if (s_.quiet) return {};
    const auto peers = peers_on_disk(folder_);
    if (!peers.empty() && !peers.front().address.empty()) {
      std::printf("%u peers on this machine; another one joins with\n\n%s\n", s_.net.peers,
                  join_command(s_, where_to_join(peers.front().address)).c_str());
      const std::string idle = idle_peers(s_);
      if (!idle.empty()) std::printf("%s\n\n", idle.c_str());
      std::fflush(stdout);
    }
    return {};
  }

  // The first peer's own address, or all of this machine's with that port.
  [[nodiscard]] std::vector<std::string> where_to_join(const std::string& first) const {
    const auto listens = causeway::net::parse_endpoint(s_.net.listen);
    const auto there = causeway::net::parse_endpoint(first);
    if (!listens || !there || !is_any_address(listens->host)) return {first};
    return reachable_at({listens->host, there->port}, s_.net.announce);
  }

  causeway::result<void> start(place& p) {
    if (stop_requested()) return {};
    forget_refusal(folder_of(p));
    std::vector<std::string> command{"peer",
                                     "launched",
                                     "--run.name",
                                     s_.run.name,
                                     "--net.index",
                                     std::to_string(p.index),
                                     "--net.threads",
                                     std::to_string(s_.net.threads),
                                     "--quiet",
                                     "true",
                                     "--watch.page",  // also where a variable asks for one
                                     ""};
    const auto ours = local_flags(s_);
    command.insert(command.end(), ours.begin(), ours.end());
    CAUSEWAY_ASSIGN(const std::string where, listens_at(p));
    if (!where.empty()) command.insert(command.end(), {"--net.listen", where});
    if (p.index == 0 && !s_.net.announce.empty()) {
      command.insert(command.end(), {"--net.announce", s_.net.announce});
    }
    CAUSEWAY_ASSIGN(const pid_t pid, start_process(command));
    const std::lock_guard lock{mutex_};
    p.process = pid;
    p.started = clock::now();
    p.start_at.reset();
    return {};
  }

  // A swarm begins on one machine; the first peer has the address that was given, the others any port beside it.
  [[nodiscard]] causeway::result<std::string> listens_at(const place& p) const {
    if (s_.net.listen.empty() || p.index == 0) return s_.net.listen;
    CAUSEWAY_ASSIGN(causeway::net::endpoint where, causeway::net::parse_endpoint(s_.net.listen));
    where.port = 0;
    return where.text();
  }

  // Blocks until the peer listens, or is dead.
  causeway::result<void> wait_for_address(place& p) {
    while (p.process != 0 && !stop_requested()) {
      for (const sibling& found : peers_on_disk(folder_)) {
        if (found.index == p.index && found.process == p.process) return {};
      }
      std::this_thread::sleep_for(10ms);
      reap();
    }
    if (stop_requested()) return {};
    return fail(errc::peer_lost, "peer 0", "ended before it listened; see above, and " + folder_of(p) + "/log.txt");
  }

  // ---- watching -----------------------------------------------------------------------------------------------------

  void reap() {
    for (place& p : places_) {
      int status = 0;
      if (p.process != 0 && waitpid(p.process, &status, WNOHANG) == p.process) ended(p, status);
    }
    if (std::none_of(places_.begin(), places_.end(), [](const place& p) { return p.foreign; })) return;
    for (const sibling& found : peers_on_disk(folder_)) {
      if (found.index < places_.size() && places_[found.index].foreign && !found.running)
        foreign_ended(places_[found.index]);
    }
  }

  void ended(place& p, int status) {
    const pid_t pid = p.process;
    {
      const std::lock_guard lock{mutex_};
      p.process = 0;
    }
    p.done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (p.done || p.too_late || stop_requested() || refused(p)) return;
    const std::string how = WIFSIGNALED(status) ? "was killed by signal " + std::to_string(WTERMSIG(status))
                                                : "ended with status " + std::to_string(WEXITSTATUS(status));
    died(p, " (pid " + std::to_string(pid) + ") " + how);
  }

  void foreign_ended(place& p) {
    p.foreign = false;
    p.done = read_result(folder_of(p)).has_value();
    if (!p.done && !stop_requested() && !refused(p)) died(p, " ended");
  }

  // Or another peer did: all have the same settings, so none could train.
  bool refused(const place& p) {
    if (!refusal_) refusal_ = read_refusal(folder_of(p));
    return refusal_.has_value();
  }

  causeway::error end_refused() {
    stop_all();
    while (std::any_of(places_.begin(), places_.end(), [](const place& p) { return p.process != 0; })) {
      std::this_thread::sleep_for(look_every);
      reap();
    }
    line_.finish();
    return *refusal_;
  }

  void died(place& p, const std::string& what) {
    const bool quick = clock::now() - p.started < 5s;
    p.quick_deaths = quick ? p.quick_deaths + 1 : 0;
    const bool again = s_.run.restart && p.quick_deaths < 10;
    p.over = !again;
    if (again) p.start_at = clock::now() + std::min(p.quick_deaths * 500ms, 5000ms);
    std::size_t alive = 0;
    for (const place& other : places_) alive += other.running() ? 1U : 0U;
    line_.finish();
    const std::string then = again       ? "starting it again"
                             : alive > 0 ? "the others go on; the same command starts it again"
                                         : "no peer is left; start the same command to go on";
    std::fprintf(stderr, "peer %u%s; %s\n", p.index, what.c_str(), then.c_str());
    write_run_event(folder_, p.index, "died", what.substr(1) + "; " + then);
  }

  causeway::result<void> restart_due() {
    for (place& p : places_) {
      if (p.start_at && stop_requested()) p.start_at.reset();
      if (p.start_at && clock::now() >= *p.start_at) CAUSEWAY_TRY(start(p));
    }
    return {};
  }

  // Who is through stays for everybody within its reach. Once most have gone, who comes back finds no quorum.
  void end_those_too_late() {
    const auto done = std::count_if(places_.begin(), places_.end(), [](const place& p) { return p.done; });
    if (2 * static_cast<std::size_t>(done) < places_.size()) return;
    if (!most_done_) most_done_ = clock::now();
    if (clock::now() - *most_done_ < 5s) return;
    for (place& p : places_) {
      p.start_at.reset();
      if (p.process == 0 || p.too_late) continue;
      p.too_late = true;
      line_.finish();
      write_run_event(folder_, p.index, "late", "came back when the others had ended");
      std::fprintf(stderr, "peer %u came back when the others had ended; the same command brings it up to date\n", p.index);
      kill(p.process, SIGTERM);
    }
  }

  // From the watcher's thread.
  void stop_all() {
    const std::lock_guard lock{mutex_};
    for (const place& p : places_) {
      if (p.process != 0) kill(p.process, SIGTERM);
    }
    for (const sibling& found : peers_on_disk(folder_)) {
      const bool ours = found.index < places_.size() && places_[found.index].foreign;
      if (ours && found.running && found.process > 0) kill(found.process, SIGTERM);
    }
  }

  // ---- showing ------------------------------------------------------------------------------------------------------

  void show_rounds() {
    for (place& p : places_) {
      std::ifstream file{folder_of(p) + "/rounds.jsonl"};
      file.seekg(p.read);
      for (std::string line; std::getline(file, line) && !file.eof();) {
        p.read = file.tellg();
        if (const auto n = parse_round(line)) show(*n);
      }
    }
  }

  void say_why_it_stands() {
    std::vector<std::string> folders;
    for (const place& p : places_) folders.push_back(folder_of(p));
    const auto why = stop_requested() ? std::nullopt : standing_.why(folders);
    if (!why) return;
    line_.finish();
    std::fprintf(stderr, "no round for a while: %s\n", why->c_str());
  }

  // The first word of each round, and validations whenever they come.
  void show(const round_news& n) {
    const bool validated = n.validation > 0 && n.round > validated_;  // all peers tell it, where they hold stages
    if (validated) validation_ = n.validation, validated_ = n.round;
    if (n.round <= shown_ && !validated) return;
    standing_.goes_on();
    shown_ = std::max(shown_, n.round);
    reached_ = std::max(reached_, n.round);
    line_.show({.step = n.of_run,
                .round = n.round,
                .loss = n.loss,
                .validation = validation_,
                .tokens_per_second = n.tokens_per_second * n.peers,
                .bytes_sent = n.bytes_sent,
                .peers = n.peers},
               validated);
  }

  causeway::result<int> conclude() {
    std::vector<std::string> folders;
    std::optional<peer_result> end;
    std::uint64_t sent = 0;
    std::size_t done = 0;
    for (const place& p : places_) {
      folders.push_back(folder_of(p));
      if (!p.done) continue;
      ++done;
      const auto found = read_result(folder_of(p));
      if (found && (!end || end->validation <= 0)) end = found;
      if (found) sent = std::max(sent, found->bytes_sent);
    }
    if (!end && stop_requested()) {
      const std::uint64_t every = s_.fault.store_every;
      const bool elastic = s_.fault.policy == "quorum";
      const char* const saved = !elastic || every == 1 ? "everything committed is saved"
                                : every == 0           ? "no round is on disk (fault.store_every 0)"
                                                       : "only some rounds are on disk (fault.store_every)";
      std::printf("stopped at round %llu; %s. Start the same command again to go on%s.\n",
                  static_cast<unsigned long long>(reached_), saved,
                  !elastic || every == 1 ? "" : ", with --run.refound true if the newest state is on no disk");
      return 130;
    }
    if (!end)
      return fail(errc::peer_lost, folder_, "no peer trained to the end; see their log.txt, and start the same command");
    CAUSEWAY_TRY(write_loss_plot(folder_ + "/loss.svg", folders,
                                 s_.run.name + ": " + std::to_string(s_.net.peers) + " peers, " + s_.comm.policy));
    if (s_.quiet) return 0;
    std::printf("\nvalidation loss %.4f nats per token (perplexity %.2f) after %s, state %016llx\n", end->validation,
                std::exp(end->validation), counted(end->round, "round").c_str(),
                static_cast<unsigned long long>(end->state));
    std::printf("%zu of %u peers trained to the end; a peer sent up to %s\n", done, s_.net.peers,
                human_bytes(static_cast<double>(sent)).c_str());
    std::printf("report %s/report.html, loss plot %s/loss.svg, metrics and checkpoints %s/peer-*\n", folder_.c_str(),
                folder_.c_str(), folder_.c_str());
    return 0;
  }

  settings s_;
  std::string folder_;
  stop_watch& watch_;
  progress_line line_;
  standing_run standing_;
  std::mutex mutex_;  // of places_' processes, which the watcher's thread signals
  std::vector<place> places_;
  std::uint64_t shown_ = 0;
  std::uint64_t reached_ = 0;  // also by earlier launchers
  std::uint64_t validated_ = 0;
  std::optional<clock::time_point> most_done_;
  std::optional<causeway::error> refusal_;
  double validation_ = 0;
};

}  // namespace

causeway::result<int> supervise(settings s, stop_watch& watch) { return supervisor{std::move(s), watch}.run(); }

}  // namespace app
