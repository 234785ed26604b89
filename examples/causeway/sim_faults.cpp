// SPDX-License-Identifier: Apache-2.0
#include "sim_faults.hpp"

#include <causeway/sim/fault_profile.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace app {
namespace {

namespace sim = causeway::sim;
using causeway::duration;
using causeway::errc;
using causeway::fail;

duration from_seconds(double s) { return duration{std::llround(s * 1e9)}; }

// A bit of everything, often enough for a run of any length to meet some of it.
sim::fault_profile random_profile(duration horizon) {
  sim::fault_profile p;
  p.kill_every = horizon;
  p.down_least = horizon / 100;
  p.down_most = horizon / 10;
  p.stop_every = 2 * horizon;
  p.stop_least = horizon / 200;
  p.stop_most = horizon / 20;
  p.partition_every = horizon / 2;
  p.partition_least = horizon / 100;
  p.partition_most = horizon / 20;
  p.one_way = 0.25;
  p.slow_every = 2 * horizon;
  p.stragglers = 0.1;
  p.disk_every = 4 * horizon;
  return p;
}

sim::fault_plan swizzle(std::uint32_t hosts, duration horizon, std::uint64_t seed) {
  std::vector<std::uint32_t> cut((hosts + 1) / 2);
  std::iota(cut.begin(), cut.end(), 0U);
  return sim::swizzle(std::move(cut), hosts, causeway::time_point{horizon / 10}, horizon * 8 / 10, seed);
}

class toml_plan {
 public:
  toml_plan(std::string path, std::uint32_t hosts, duration horizon, std::uint64_t seed)
      : path_{std::move(path)}, hosts_{hosts}, horizon_{horizon}, seed_{seed} {}

  causeway::result<sim::fault_plan> read(const std::string& text) {
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) return wrong(parsed.error().source().begin.line, std::string{parsed.error().description()});
    for (const auto& [key, node] : parsed.table()) {
      const std::string name{key.str()};
      if (name == "profile" && node.is_table()) {
        CAUSEWAY_TRY(read_profile(*node.as_table()));
      } else if (name == "fault" && node.is_array_of_tables()) {
        for (const auto& each : *node.as_array()) CAUSEWAY_TRY(read_fault(*each.as_table()));
      } else {
        return wrong(node.source().begin.line, "'" + name + "' is neither [profile] nor [[fault]]");
      }
    }
    plan_.sort();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] causeway::error wrong(std::uint32_t line, const std::string& why) const {
    return fail(errc::invalid_argument, path_ + ":" + std::to_string(line), why);
  }

  causeway::result<void> read_profile(const toml::table& table) {
    sim::fault_profile p;
    const std::string base = table["base"].value_or(std::string{"none"});
    if (base == "harsh") p = sim::harsh_profile();
    if (base == "datacentre") p = sim::datacentre_profile();
    if (base == "hostile") p = sim::hostile_profile();
    if (base == "random") p = random_profile(horizon_);
    const std::map<std::string, duration*> times{{"kill_every", &p.kill_every},
                                                 {"down_least", &p.down_least},
                                                 {"down_most", &p.down_most},
                                                 {"stop_every", &p.stop_every},
                                                 {"stop_least", &p.stop_least},
                                                 {"stop_most", &p.stop_most},
                                                 {"partition_every", &p.partition_every},
                                                 {"partition_least", &p.partition_least},
                                                 {"partition_most", &p.partition_most},
                                                 {"slow_every", &p.slow_every},
                                                 {"slow_least", &p.slow_least},
                                                 {"slow_most", &p.slow_most},
                                                 {"disk_every", &p.disk_every},
                                                 {"message_every", &p.message_every},
                                                 {"message_least", &p.message_least},
                                                 {"message_most", &p.message_most},
                                                 {"alter_every", &p.alter_every},
                                                 {"slow_disk_every", &p.slow_disk_every},
                                                 {"slow_disk_least", &p.slow_disk_least},
                                                 {"slow_disk_most", &p.slow_disk_most},
                                                 {"clock_every", &p.clock_every},
                                                 {"clock_jump", &p.clock_jump},
                                                 {"scarce_every", &p.scarce_every},
                                                 {"scarce_least", &p.scarce_least},
                                                 {"scarce_most", &p.scarce_most}};
    const std::map<std::string, double*> numbers{{"power_off", &p.power_off},
                                                 {"one_way", &p.one_way},
                                                 {"slow_bytes_per_s", &p.slow_bytes_per_s},
                                                 {"stragglers", &p.stragglers},
                                                 {"slowdown", &p.slowdown},
                                                 {"message_chance", &p.message_chance},
                                                 {"sync_seconds", &p.sync_seconds},
                                                 {"disk_bytes_per_s", &p.disk_bytes_per_s},
                                                 {"clock_drift", &p.clock_drift}};
    for (const auto& [key, node] : table) {
      const std::string name{key.str()};
      const auto value = node.value<double>();
      if (name == "base") continue;
      if (name == "bathtub" && node.is_boolean()) {
        if (node.value_or(false)) p.life = sim::lifetime::bathtub;
      } else if (times.contains(name) && value && *value >= 0) {
        *times.at(name) = from_seconds(*value);
      } else if (numbers.contains(name) && value && *value >= 0) {
        *numbers.at(name) = *value;
      } else {
        return wrong(node.source().begin.line, "'" + name + "' is no number of a profile; times are in seconds");
      }
    }
    const auto generated = sim::random_plan(p, hosts_, horizon_, seed_);
    plan_.faults.insert(plan_.faults.end(), generated.faults.begin(), generated.faults.end());
    return {};
  }

  causeway::result<void> read_fault(const toml::table& table) {
    const auto line = table.source().begin.line;
    const auto at = table["at"].value<double>();
    const std::string kind = table["kind"].value_or(std::string{});
    const auto known = std::find(sim::fault_names.begin(), sim::fault_names.end(), kind);
    if (!at || *at < 0) return wrong(line, "a fault needs its time: at = seconds");
    if (known == sim::fault_names.end()) return wrong(line, "'" + kind + "' is no kind of fault");
    sim::fault f;
    f.at = causeway::time_point{from_seconds(*at)};
    f.kind = static_cast<sim::fault_kind>(known - sim::fault_names.begin());
    f.hosts = hosts_of(table["hosts"].as_array());
    f.others = hosts_of(table["others"].as_array());
    f.amount = table["amount"].value_or(0.0);
    if (f.hosts.empty()) return wrong(line, "a fault needs its hosts: hosts = [0, 3]");
    plan_.faults.push_back(std::move(f));
    return {};
  }

  static std::vector<std::uint32_t> hosts_of(const toml::array* list) {
    std::vector<std::uint32_t> hosts;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      hosts.push_back(static_cast<std::uint32_t>((*list)[i].value_or(std::int64_t{0})));
    }
    return hosts;
  }

  std::string path_;
  std::uint32_t hosts_;
  duration horizon_;
  std::uint64_t seed_;
  sim::fault_plan plan_;
};

}  // namespace

causeway::result<std::string> read_small_file(const std::string& path) {
  std::ifstream file{path};
  if (!file) return fail(errc::not_found, path, "cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

causeway::result<sim::fault_plan> plan_faults(const std::string& what, std::uint32_t hosts, duration horizon,
                                              std::uint64_t seed) {
  if (what.empty() || what == "none") return sim::fault_plan{};
  if (what == "random") return sim::random_plan(random_profile(horizon), hosts, horizon, seed);
  if (what == "harsh") return sim::random_plan(sim::harsh_profile(), hosts, horizon, seed);
  if (what == "datacentre") return sim::random_plan(sim::datacentre_profile(), hosts, horizon, seed);
  if (what == "hostile") return sim::random_plan(sim::hostile_profile(), hosts, horizon, seed);
  if (what == "swizzle") return swizzle(hosts, horizon, seed);
  const bool file = what.ends_with(".toml") || what.ends_with(".csv") || what.ends_with(".txt");
  if (!file) {
    return fail(errc::invalid_argument, "sim.faults",
                "'" + what + "'; use none, random, harsh, datacentre, hostile, swizzle, or a file .toml, .csv or .txt");
  }
  CAUSEWAY_ASSIGN(const std::string text, read_small_file(what));
  if (what.ends_with(".csv")) return sim::parse_preemptions(text, what);
  if (what.ends_with(".txt")) return sim::fault_plan::parse(text, what);
  return toml_plan{what, hosts, horizon, seed}.read(text);
}

}  // namespace app
