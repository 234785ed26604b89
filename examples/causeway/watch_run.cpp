// SPDX-License-Identifier: Apache-2.0
#include "watch_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <thread>

#include "corpus.hpp"
#include "page_text.hpp"
#include "report.hpp"
#include "run_records.hpp"
#include "stop.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using namespace std::chrono_literals;

constexpr std::size_t events_shown = 8;

template <class... Ts>
std::string format(const char* pattern, Ts... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

const char* what_it_does(const peer_figures& p) { return p.running ? "trains" : p.ended ? "finished" : "is gone"; }

std::string row_of(std::uint32_t index, const peer_figures& p) {
  const double busy = p.compute_seconds + p.exchange_seconds;
  return format("%5u  %-8s  %8llu  %7llu  %8.4f  %10.0f  %9s  %7.1f %%\n", index, what_it_does(p),
                static_cast<unsigned long long>(p.step), static_cast<unsigned long long>(p.round), p.loss,
                p.running ? p.tokens_per_second : 0.0, human_bytes(p.bytes_sent).c_str(),
                busy > 0 ? 100 * p.exchange_seconds / busy : 0.0);
}

std::string row_of(const told_peer& p) {
  return format("%5s  %-8s  %8llu  %7llu  %8.4f  %10.0f  %9s  %9s  %.60s\n", "+", "elsewhere",
                static_cast<unsigned long long>(p.step), static_cast<unsigned long long>(p.round), p.loss,
                p.tokens_per_second, human_bytes(p.bytes_sent).c_str(), "", p.address.c_str());
}

std::string table_of(const run_records& run) {
  double validation = 0;
  std::uint64_t newest = 0;
  for (const auto& [index, p] : run.peers()) {
    if (p.validation > 0 && p.round >= newest) validation = p.validation, newest = p.round;
  }
  std::string text = run.folder() + "\n\n peer            inner step    round      loss    tokens/s       sent  exposed\n";
  for (const auto& [index, p] : run.peers()) text += row_of(index, p);
  for (const auto& [id, p] : run.others()) text += row_of(p);
  if (validation > 0) text += format("\nvalidation loss %.4f nats per token\n", validation);
  const auto& all = run.events();
  if (!all.empty()) text += "\n";
  for (auto at = all.end() - static_cast<std::ptrdiff_t>(std::min(all.size(), events_shown)); at != all.end(); ++at) {
    const auto when = static_cast<std::time_t>(at->first);
    std::tm here{};
    localtime_r(&when, &here);
    text += format("%02d:%02d:%02d  %.440s\n", here.tm_hour, here.tm_min, here.tm_sec, at->second.c_str());
  }
  return text;
}

causeway::result<std::string> existing_folder(const settings& s) {
  CAUSEWAY_TRY(check_run_name(s));
  const std::string folder = run_folder(s);
  if (std::filesystem::is_directory(folder)) return folder;
  return fail(errc::not_found, folder, "no run of this name here; name one: causeway watch NAME, or --run.directory");
}

bool somebody_trains(const run_records& run) {
  return std::any_of(run.peers().begin(), run.peers().end(), [](const auto& one) { return one.second.running; });
}

causeway::result<int> serve(const settings& s, const std::string& folder) {
  CAUSEWAY_ASSIGN(const page_server page, serve_page(s, folder));
  while (!stop_requested()) std::this_thread::sleep_for(50ms);
  return 0;
}

}  // namespace

causeway::result<page_server> serve_page(const settings& s, const std::string& run_folder) {
  CAUSEWAY_ASSIGN(page_server page, page_server::open(s.watch.page, run_folder));
  if (s.watch.page.empty()) return page;
  std::printf("watch the run at %s\n", page.url().c_str());
  std::fflush(stdout);
  return page;
}

std::string run_table(const std::string& run_folder) {
  run_records run{run_folder};
  run.refresh();
  return table_of(run);
}

causeway::result<int> watch_run(const settings& s) {
  CAUSEWAY_ASSIGN(const std::string folder, existing_folder(s));
  if (!s.watch.page.empty()) return serve(s, folder);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  run_records run{folder};
  do {
    run.refresh();
    std::printf("%s%s", terminal ? "\033[H\033[2J" : "", table_of(run).c_str());
    std::fflush(stdout);
    for (int i = 0; terminal && i < 20 && !stop_requested(); ++i) std::this_thread::sleep_for(50ms);
  } while (terminal && somebody_trains(run) && !stop_requested());
  return 0;
}

causeway::result<int> report_run(const settings& s) {
  CAUSEWAY_ASSIGN(const std::string folder, existing_folder(s));
  CAUSEWAY_TRY(write_report(folder));
  std::printf("%s/report.html\n", folder.c_str());
  return 0;
}

}  // namespace app
