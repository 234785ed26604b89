// SPDX-License-Identifier: Apache-2.0
#include "server_processes.hpp"

#include <causeway/net/endpoint.hpp>

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "launch.hpp"
#include "serve.hpp"
#include "stop.hpp"
#include "text_file.hpp"

namespace app {

using causeway::errc;
using causeway::fail;
using namespace std::chrono_literals;

namespace {

int ended(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

causeway::result<std::unique_ptr<server_processes>> server_processes::start(const settings& s, const std::string& folder) {
  if (!s.quiet) std::printf("%u servers on this machine, in %s/server-*\n", s.servers.here, folder.c_str());
  std::unique_ptr<server_processes> made{new server_processes{s}};
  made->all_.resize(s.servers.here);
  for (std::uint32_t part = 0; part < s.servers.here; ++part) CAUSEWAY_TRY(made->start(part));
  for (std::uint32_t part = 0; part < s.servers.here; ++part) CAUSEWAY_TRY(made->wait_for_address(part));
  made->watcher_ = std::jthread{[it = made.get()](const std::stop_token& stop) { it->watch(stop); }};
  return made;
}

server_processes::~server_processes() {
  if (watcher_.joinable()) {
    watcher_.request_stop();
    watcher_.join();
  }
  for (const process& p : all_) {
    if (p.pid > 0) kill(p.pid, SIGTERM);
  }
  for (const process& p : all_) {
    if (p.pid > 0) ended(p.pid);
  }
}

causeway::result<void> server_processes::start(std::uint32_t part) {
  std::vector<std::string> command{"server",
                                   "--run.name",
                                   s_.run.name,
                                   "--servers.part",
                                   std::to_string(part),
                                   "--servers.parts",
                                   std::to_string(s_.servers.here),
                                   "--net.threads",
                                   std::to_string(s_.net.threads),
                                   "--quiet",
                                   "true",
                                   "--watch.page",
                                   ""};
  const auto ours = local_flags(s_);
  command.insert(command.end(), ours.begin(), ours.end());
  if (auto where = causeway::net::parse_endpoint(s_.net.listen)) {  // where peers of other machines reach it
    where->port = 0;
    command.insert(command.end(), {"--net.listen", where->text()});
  }
  CAUSEWAY_ASSIGN(all_[part].pid, start_process(command));
  all_[part].started = std::chrono::steady_clock::now();
  return {};
}

causeway::result<void> server_processes::wait_for_address(std::uint32_t part) {
  const std::string file = server_folder(s_, part) + "/address";
  for (process& p = all_[part];;) {
    const auto text = read_text(file);
    const std::size_t space = text ? text->find(' ') : std::string::npos;
    if (space != std::string::npos && text->substr(space + 1) == std::to_string(p.pid) + "\n") {
      addresses_.push_back(text->substr(0, space));
      return {};
    }
    if (stop_requested()) return fail(errc::cancelled, file, "stopped on request");
    int status = 0;
    if (waitpid(p.pid, &status, WNOHANG) == p.pid) {
      p.pid = 0;
      return fail(errc::peer_lost, "server " + std::to_string(part), "ended before it listened; see above");
    }
    std::this_thread::sleep_for(10ms);
  }
}

void server_processes::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (std::uint32_t part = 0; part < all_.size(); ++part) {
      process& p = all_[part];
      int status = 0;
      if (p.pid > 0 && waitpid(p.pid, &status, WNOHANG) == p.pid) died(part, status);
    }
    std::this_thread::sleep_for(50ms);
  }
}

void server_processes::died(std::uint32_t part, int status) {
  process& p = all_[part];
  p.pid = 0;
  const bool quick = std::chrono::steady_clock::now() - p.started < 5s;
  p.quick_deaths = quick ? p.quick_deaths + 1 : 0;
  const bool again = p.quick_deaths < 10 && !stop_requested();
  const std::string how = WIFSIGNALED(status) ? "was killed by signal " + std::to_string(WTERMSIG(status))
                                              : "ended with status " + std::to_string(WEXITSTATUS(status));
  std::fprintf(stderr, "server %u %s; %s\n", part, how.c_str(), again ? "starting it again" : "it is left out");
  if (!again) return;
  if (const auto started = start(part); !started) std::fprintf(stderr, "%s\n", started.error().text().c_str());
}

}  // namespace app
