// SPDX-License-Identifier: Apache-2.0
#include "results.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

namespace losses {

namespace {

/// The text after "key": up to the end of the string or number. Lines are our own: no quotes inside strings.
std::string field(const std::string& line, const std::string& key) {
  const std::string quoted = '"' + key + "\":";
  const auto at = line.find(quoted);
  if (at == std::string::npos) return {};
  const auto begin = at + quoted.size();
  if (line[begin] == '"') return line.substr(begin + 1, line.find('"', begin + 1) - begin - 1);
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

double number(const std::string& line, const std::string& key) { return std::strtod(field(line, key).c_str(), nullptr); }

record parse(const std::string& line) {
  return {.name = field(line, "name"),
          .settings = field(line, "settings"),
          .peers = static_cast<std::uint32_t>(number(line, "peers")),
          .steps = static_cast<std::uint64_t>(number(line, "steps")),
          .seed = static_cast<std::uint64_t>(number(line, "seed")),
          .rate = number(line, "rate"),
          .local_steps = static_cast<std::uint32_t>(number(line, "local_steps")),
          .momentum = number(line, "momentum"),
          .world = number(line, "world") != 0,
          .loss = number(line, "loss"),
          .megabytes = number(line, "megabytes"),
          .waited = number(line, "waited")};
}

bool fits(const record& a, const row& r, const plan& p) {
  return a.name == r.name && a.settings == r.settings && a.peers == p.peers && a.steps == p.steps &&
         a.local_steps == p.local_steps && std::abs(a.momentum - static_cast<double>(p.momentum)) < 1e-6 &&
         std::abs(a.rate - static_cast<double>(p.rate)) < 1e-6;
}

std::string waited_text(const std::optional<double>& seconds) {
  char text[32] = "";
  if (seconds) std::snprintf(text, sizeof text, "%.1f", *seconds);
  return text;
}

}  // namespace

results::results(std::string path) : path_{std::move(path)} {
  std::ifstream in{path_};
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('}')) all_.push_back(parse(line));  // else it was cut off
  }
}

const record* results::find(const row& r, const plan& p) const {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const record& a) { return fits(a, r, p) && a.seed == p.seed; });
  return found == all_.end() ? nullptr : &*found;
}

void results::add(const record& r) {
  all_.push_back(r);
  std::FILE* const out = std::fopen(path_.c_str(), "a");
  if (out == nullptr) throw std::runtime_error{"cannot write to " + path_};
  std::fprintf(out,
               "{\"name\":\"%s\",\"settings\":\"%s\",\"peers\":%u,\"steps\":%llu,\"seed\":%llu,\"rate\":%g,\"local_steps\":"
               "%u,\"momentum\":%g,\"world\":%d,"
               "\"loss\":%.6f,\"megabytes\":%.6f,\"waited\":%.3f}\n",
               r.name.c_str(), r.settings.c_str(), r.peers, static_cast<unsigned long long>(r.steps),
               static_cast<unsigned long long>(r.seed), r.rate, r.local_steps, r.momentum, r.world ? 1 : 0, r.loss,
               r.megabytes, r.waited);
  std::fclose(out);
}

std::optional<summary> results::of(const row& r, const plan& p) const {
  summary s;
  s.lowest = std::numeric_limits<double>::infinity();
  s.highest = -s.lowest;
  for (const record& a : all_) {
    if (!fits(a, r, p)) continue;
    ++s.runs;
    s.loss += a.loss;
    s.megabytes += a.megabytes;
    s.lowest = std::min(s.lowest, a.loss);
    s.highest = std::max(s.highest, a.loss);
    s.waited[a.world ? 1 : 0] = a.waited;  // of the last one: virtual time does not depend on the seed, but for a few
  }
  if (s.runs == 0) return std::nullopt;
  s.loss /= s.runs;
  s.megabytes /= s.runs;
  return s;
}

void print_table(const std::vector<row>& rows, const results& all, const plan& p, double start) {
  const auto base = all.of(rows.front(), p);
  if (!base) return;
  std::printf("\n%u peers, %llu steps each, rate %g, H = %u, outer momentum %g:\n\n", p.peers,
              static_cast<unsigned long long>(p.steps), static_cast<double>(p.rate), p.local_steps,
              static_cast<double>(p.momentum));
  std::printf("The start has %.4f.\n\n", start);
  std::printf(
      "| preset | settings | loss | seeds | against every_step | gain kept | MB sent by a peer | times fewer | waited, s: "
      "100 Mbit/s | world.csv |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const row& r : rows) {
    const auto s = r.in_table ? all.of(r, p) : std::nullopt;
    if (!s) continue;
    std::printf("| %s | %s | %.4f | %d: %.3f-%.3f | %+.2f %% | %.0f %% | %.2f | %.1f | %s | %s |\n", r.name.c_str(),
                r.settings.c_str(), s->loss, s->runs, s->lowest, s->highest, 100 * (s->loss / base->loss - 1),
                100 * (start - s->loss) / (start - base->loss), s->megabytes, base->megabytes / s->megabytes,
                waited_text(s->waited[0]).c_str(), waited_text(s->waited[1]).c_str());
  }
}

}  // namespace losses
