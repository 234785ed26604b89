// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <causeway/core/hash.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "addresses.hpp"
#include "failpoint.hpp"
#include "option.hpp"
#include "stop.hpp"
#include "welcome.hpp"

extern char** environ;

namespace app {
namespace {

namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text.data(), text.size()}); }

std::string own_path() {
  char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string{path, static_cast<std::size_t>(length)} : "causeway";
}

}  // namespace

causeway::log_sink log_to_stderr() {
  return causeway::log_sink{[](causeway::severity level, std::string_view text) {
    if (level < causeway::severity::warning) return;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }};
}

namespace {

net::rendezvous_options options_for(const settings& s) {
  net::rendezvous_options o;
  o.stop = &stop_requested();
  o.streams_per_link = s.net.streams;
  o.transport.shared_memory = s.net.shared_memory;
  o.transport.log = log_to_stderr();
  if (s.net.index >= 0) o.wanted_index = static_cast<net::peer_index>(s.net.index);
  const auto announced = net::parse_endpoint(s.net.announce);
  o.announce = announced ? announced->host : s.net.announce;
  if (announced) o.announce_port = announced->port;
  return o;
}

}  // namespace

causeway::result<pid_t> start_process(const std::vector<std::string>& arguments) {
  const std::string program = own_path();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, program.c_str(), nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    return fail(errc::io_failed, program, std::string{"another peer cannot be started: "} + std::strerror(failure));
  }
  return pid;
}

causeway::result<void> child_peers::start(const std::vector<std::string>& arguments) {
  CAUSEWAY_ASSIGN(const pid_t pid, start_process(arguments));
  const std::lock_guard lock{mutex_};
  running_.push_back(pid);
  return {};
}

void child_peers::stop() {
  const std::lock_guard lock{mutex_};
  for (const pid_t pid : running_) kill(pid, SIGTERM);
}

causeway::result<void> child_peers::wait() {
  causeway::result<void> outcome;
  std::vector<pid_t> all;
  {
    const std::lock_guard lock{mutex_};
    all.swap(running_);
  }
  for (const pid_t pid : all) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0 && outcome) outcome = fail(errc::peer_lost, "a peer on this machine", "ended with an error; see above");
  }
  return outcome;
}

bool child_peers::ended_one() {
  const std::lock_guard lock{mutex_};
  return std::any_of(running_.begin(), running_.end(), [](pid_t pid) {
    siginfo_t info{};  // `wait` still has its status
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
  });
}

// Reached with children only when this peer failed: the others would wait for it.
child_peers::~child_peers() {
  stop();
  (void)wait();
}

namespace {

// While all come in. A child that ends before it is in would be waited for without end: what is set then ends the wait, as
// Ctrl-C does.
class early_end {
 public:
  explicit early_end(child_peers& children)
      : watcher_{[this, &children](const std::stop_token& all_are_in) {
          while (!all_are_in.stop_requested() && !seen_) {
            if (stop_requested() || children.ended_one()) seen_ = true;
            std::this_thread::sleep_for(std::chrono::milliseconds{10});
          }
        }} {}

  [[nodiscard]] const std::atomic<bool>& seen() const noexcept { return seen_; }

 private:
  std::atomic<bool> seen_{false};
  std::jthread watcher_;
};

}  // namespace

std::uint64_t run_id_of(const settings& s) {
  const std::string name = s.run.branch.empty() ? s.run.name : s.run.name + "/" + s.run.branch;  // no name has a slash
  return causeway::hash_text(name, s.run.seed) | 1U;
}

causeway::result<net::membership> host_run(settings& s, std::uint64_t run_id, child_peers& children,
                                           net::piece_source pieces) {
  const bool local = s.net.listen.empty();
  auto options = options_for(s);
  options.run_id = run_id;
  options.wanted_index.reset();
  options.pieces = std::move(pieces);
  CAUSEWAY_ASSIGN(const net::endpoint wanted, net::parse_endpoint(local ? "127.0.0.1:0" : s.net.listen));
  CAUSEWAY_ASSIGN(net::listener at, net::open_listener(wanted, options.transport.log));
  const std::string address = at.address().text();
  if (local) {
    for (std::uint32_t i = 1; i < s.net.peers; ++i) {
      std::vector<std::string> command{"join",
                                       address,
                                       "--net.index",
                                       std::to_string(i),
                                       "--net.threads",
                                       std::to_string(s.net.threads),
                                       "--quiet",
                                       "true",
                                       "--fault.restarts",
                                       "0",  // whoever started them starts them anew
                                       "--watch.page",
                                       ""};
      const auto ours = local_flags(s);
      command.insert(command.end(), ours.begin(), ours.end());
      CAUSEWAY_TRY(children.start(command));
    }
  } else {
    std::printf("waiting for %u more peers; on each other machine run\n\n%s\n", s.net.peers - 1,
                join_lines(reachable_at(at.address(), s.net.announce), "").c_str());
    std::fflush(stdout);
    options.progress = [](const net::rendezvous_progress& g) {
      std::printf("%u of %u peers are in\n", g.joined, g.wanted);
      std::fflush(stdout);
    };
  }
  const std::string welcome = to_toml(s, true);
  const early_end early{children};
  options.stop = &early.seen();
  auto member = net::host(std::move(at), s.net.peers, bytes_of(welcome), options);
  if (!member && early.seen() && !stop_requested()) {
    return fail(errc::peer_lost, "a peer on this machine", "ended before all were in; see above");
  }
  return member;
}

causeway::result<void> take_over(settings& s, const origins& from, const std::string& text, const std::string& whose) {
  settings theirs;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(text, "the settings of " + whose, theirs, ignored));
  auto ours = table(s);
  const auto given = table(theirs);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].local) continue;
    const auto origin = from.find(ours[i].name);
    if (origin != from.end() && ours[i].get() != given[i].get()) {
      return fail(errc::wrong_model, ours[i].name,
                  "is " + ours[i].get() + " here (" + origin->second + ") and " + given[i].get() + " in " + whose +
                      "; leave it out to take the run's");
    }
    ours[i].set(given[i].get());
  }
  return {};
}

causeway::result<net::membership> join_run(settings& s, const origins& from) {
  if (s.net.index >= 0) failpoint{static_cast<std::uint32_t>(s.net.index)}.pass("joining");
  auto options = options_for(s);
  options.deadline = causeway::steady_clock{}.now() + std::chrono::seconds{s.net.patience};
  options.listen = listen_near(s.net.join);
  if (!s.net.listen.empty()) {
    CAUSEWAY_ASSIGN(options.listen, net::parse_endpoint(s.net.listen));
  }
  CAUSEWAY_ASSIGN(const net::endpoint address, net::parse_endpoint(s.net.join));
  CAUSEWAY_ASSIGN(net::membership member, net::join(address, options));

  const std::string text{reinterpret_cast<const char*>(member.welcome.data()), member.welcome.size()};
  CAUSEWAY_TRY(take_over(s, from, text, "the run at " + address.text()));
  return member;
}

causeway::result<net::membership> connect_run(settings& s, std::uint64_t run_id) {
  auto options = options_for(s);
  options.run_id = run_id;
  options.deadline = causeway::steady_clock{}.now() + std::chrono::seconds{s.net.patience};
  std::vector<net::endpoint> addresses;
  for (const auto& text : s.net.static_peers) {
    CAUSEWAY_ASSIGN(net::endpoint e, net::parse_endpoint(text));
    addresses.push_back(std::move(e));
  }
  if (s.net.index < 0 || s.net.index >= static_cast<std::int64_t>(addresses.size())) {
    return fail(errc::invalid_argument, "net.index",
                "says which of net.static_peers this peer is; set it to 0 to " + std::to_string(addresses.size() - 1));
  }
  s.net.peers = static_cast<std::uint32_t>(addresses.size());
  options.model_hash = causeway::hash_text(to_toml(s, true));
  return net::connect_static(static_cast<net::peer_index>(s.net.index), addresses, options);
}

}  // namespace app
