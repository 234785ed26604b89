// SPDX-License-Identifier: Apache-2.0
#include "simulate.hpp"

#include <causeway/core/rng.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "corpus.hpp"
#include "launch.hpp"
#include "option.hpp"
#include "report.hpp"
#include "sim_cluster.hpp"
#include "stop.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

unsigned long long ull(std::uint64_t v) { return v; }

// The stand-in sees only the first token of a sequence; any will do.
corpus made_up_text(const settings& s) {
  causeway::rng draws{s.run.seed, causeway::mix(0x73696D)};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::max<std::int64_t>(65536, s.model.context * 64)));
  for (auto& t : tokens) t = static_cast<std::int32_t>(draws.below(256));
  const causeway::data::token_stream all{tokens};
  return corpus{text_codec{s, causeway::data::byte_tokenizer{}}, causeway::data::split_fraction(all, 0.1), tokens.size(),
                0};
}

causeway::result<corpus> text_for(const settings& s) {
  if (s.sim.compute == "model") return made_up_text(s);
  std::error_code failure;
  std::filesystem::create_directories(run_folder(s), failure);
  return prepare_corpus(s, run_folder(s));
}

std::string quoted(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+-") ==
                           std::string::npos) {
    return text;
  }
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return all + "'";
}

// Everything that is not as it is by itself, and one seed.
std::string replay_command(settings s) {
  s.sim.seeds = 1;
  s.sim.history.clear();
  settings usual;
  const auto ours = table(s);
  const auto theirs = table(usual);
  std::string command = "causeway simulate --seed " + std::to_string(s.run.seed);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const bool said = ours[i].name == "run.seed" || ours[i].name == "fault.policy" || ours[i].name == "net.threads";
    if (!said && ours[i].get() != theirs[i].get()) command += " --" + ours[i].name + " " + quoted(ours[i].get());
  }
  return command;
}

void print(const settings& s, const sim_result& r) {
  const double peers = s.net.peers;
  const double whole = std::max(1e-9, r.seconds * peers);
  std::printf("seed %llu: %s after %s of virtual time (%.3f s)\n", ull(s.run.seed),
              r.violation  ? "A RULE WAS BROKEN"
              : r.complete ? "trained to the end"
                           : "NOT THROUGH",
              human_seconds(r.seconds).c_str(), r.seconds);
  std::printf("  %llu rounds, %llu samples committed, %.2f samples/s\n", ull(r.rounds), ull(r.samples),
              static_cast<double>(r.samples) / std::max(1e-9, r.seconds));
  std::printf("  goodput %.1f %% of what live peers could compute, %.1f %% of all peers at speed 1\n",
              100 * r.useful_seconds / std::max(1e-9, r.capacity_seconds), 100 * r.useful_seconds / whole);
  std::printf("  computing %.1f %% of the time that peers were alive, blocked or fetching %.1f %%\n",
              100 * r.compute_seconds / std::max(1e-9, r.alive_seconds),
              100 - 100 * r.compute_seconds / std::max(1e-9, r.alive_seconds));
  std::printf("  sent %s in all, %s per peer\n", human_bytes(static_cast<double>(r.bytes_sent)).c_str(),
              human_bytes(static_cast<double>(r.bytes_sent) / peers).c_str());
  std::printf("  %llu kills, %llu stops, %llu restarts\n", ull(r.kills), ull(r.stops), ull(r.restarts));
  if (r.validation > 0) std::printf("  validation loss %.6f\n", r.validation);
  std::printf("  state %016llx, history %016llx of %llu events\n", ull(r.state), ull(r.history), ull(r.events));
  if (r.violation) std::printf("%s\n", r.violation->c_str());
  if (!r.waiting.empty()) std::printf("%s", r.waiting.c_str());
  std::fflush(stdout);
}

// A line on a terminal, about twice a second.
class progress_on_stderr {
 public:
  bool operator()(const sim_progress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ > std::chrono::milliseconds{500} && isatty(2) != 0) {
      last_ = now;
      std::fprintf(stderr, "\r\033[Kvirtual time %s, round %llu, %u alive ", human_seconds(p.seconds).c_str(), ull(p.round),
                   p.alive);
      shown_ = true;
    }
    return !stop_requested();
  }
  void clear() {
    if (std::exchange(shown_, false)) std::fprintf(stderr, "\r\033[K");
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

}  // namespace

causeway::result<int> simulate(settings s) {
  s.fault.policy = "quorum";
  CAUSEWAY_TRY(validate(s));
  if (s.parallel.policy != "data") {
    return fail(errc::unsupported, "parallel.policy",
                "peers with stages are not simulated here; train them, or use `causeway replay` and `causeway plan`");
  }
  s.quiet = true;
  s.net.threads = std::max(1U, s.net.threads);
  CAUSEWAY_ASSIGN(corpus data, text_for(s));
  std::ofstream history;
  if (!s.sim.history.empty()) {
    history.open(s.sim.history);
    if (!history) return fail(errc::io_failed, s.sim.history, "cannot be written; give another file with --history");
  }
  std::function<void(const std::string&)> write;
  if (history.is_open()) write = [&](const std::string& line) { history << line << '\n'; };

  const std::uint64_t first = s.run.seed;
  for (std::uint64_t i = 0; i < s.sim.seeds; ++i) {
    s.run.seed = first + i;
    const session_input in{s, data, "", run_id_of(s), [] { return false; }};
    progress_on_stderr progress;
    CAUSEWAY_ASSIGN(const sim_result r, simulate_run(in, std::ref(progress), write));
    progress.clear();
    if (r.cancelled) return 130;
    print(s, r);
    const bool good = r.complete && !r.violation;
    if (!good || s.sim.seeds == 1) std::printf("replay: %s\n", replay_command(s).c_str());
    if (!good) return 1;
  }
  return 0;
}

}  // namespace app
