// SPDX-License-Identifier: Apache-2.0
#include "run_records.hpp"

#include <causeway/config/version.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

#include "json_line.hpp"
#include "metrics.hpp"
#include "option.hpp"
#include "peer_folder.hpp"
#include "run_folder.hpp"
#include "settings.hpp"

namespace app {
namespace {

using causeway::formats::json_value;

constexpr std::size_t most_steps = 8'000;  ///< of all peers together
constexpr std::size_t fewest_steps = 200;  ///< of each, however many there are
constexpr std::size_t most_events = 500;   ///< of a peer
constexpr std::size_t most_links = 4;      ///< of a process: they are sums, so only the newest count
constexpr std::size_t most_others = 1024;
constexpr std::uint64_t newest_kept = 64;  ///< are never thinned out
constexpr std::size_t longest_line = std::size_t{1} << 20U;

double number(const json_value& line, std::string_view name, double otherwise = 0) {
  const json_value* const found = line.find(name);
  const bool is_number = found != nullptr && (found->is(json_value::kind::number) || found->is(json_value::kind::integer));
  return is_number ? found->number : otherwise;
}

std::string text(const json_value& line, std::string_view name) {
  const json_value* const found = line.find(name);
  return found != nullptr && found->is(json_value::kind::text) ? found->text : std::string{};
}

std::uint64_t whole(double v) { return v > 0 ? static_cast<std::uint64_t>(v) : 0; }

// The settings that all peers of the run share, by name.
std::string settings_json(const std::string& folder) {
  settings s;
  origins ignored;
  const auto kept = kept_settings(folder);
  if (!kept || !apply_toml(*kept, settings_file(folder), s, ignored)) return "{}";
  json_line j;
  for (const setting& one : table(s)) {
    if (!one.local) j.add(one.name, one.get());
  }
  return j.text();
}

}  // namespace

void run_records::forget() {
  files_.clear();
  records_.clear();
  groups_.clear();
  peers_.clear();
  others_.clear();
  before_.clear();
  events_.clear();
  deaths_ = 0;
  next_ = 0;
  ++generation_;
}

void run_records::refresh() {
  for (int attempt = 0; attempt < 2; ++attempt) {  // the second time if a peer took back what it had written
    bool same = read(folder_ + "/events.jsonl", files_["events"]);
    const auto siblings = peers_on_disk(folder_);
    for (const sibling& s : siblings) {
      const std::string path = folder_ + "/peer-" + std::to_string(s.index) + "/metrics.jsonl";
      same = same && read(path, files_[path]);
      peers_[s.index].running = s.running;
    }
    if (same) return;
    forget();
  }
}

// False: the file is another one than before.
bool run_records::read(const std::string& path, file& f) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) return f.inode == 0;
  if (f.inode != 0 && (f.inode != now.st_ino || now.st_size < f.read)) return false;
  f.inode = now.st_ino;
  if (now.st_size == f.read) return true;
  std::ifstream in{path, std::ios::binary};
  in.seekg(f.read);
  for (std::string line; std::getline(in, line) && !in.eof();) {  // a line without its end is not there yet
    f.read = in.tellg();
    if (line.size() <= longest_line) take(std::move(line));
  }
  return true;
}

void run_records::take(std::string line) {
  const auto parsed = causeway::formats::parse_json(line, "metrics.jsonl", {.bytes = longest_line, .depth = 6});
  if (!parsed || !parsed->is_object() || number(*parsed, "schema") != metrics_schema) return;
  const auto peer = static_cast<std::int64_t>(number(*parsed, "peer", -1));
  const std::string kind = text(*parsed, "kind");
  if (peer >= 0 && peer <= UINT32_MAX) fold(peers_[static_cast<std::uint32_t>(peer)], kind, *parsed);
  if (kind == "event") note(number(*parsed, "ts"), peer, text(*parsed, "text"));
  if (text(*parsed, "what") == "died") ++deaths_;
  const auto process = peers_.find(static_cast<std::uint32_t>(peer));
  const bool sums = kind == "links" && process != peers_.end();
  const auto at = groups_.try_emplace({peer, sums ? kind + std::to_string(process->second.starts) : kind}).first;
  group& g = at->second;
  records_.push_back({next_++, g.seen++, &at->first, std::move(line)});
  ++g.kept;
  thin(at->first, g);
}

void run_records::note(double when, std::int64_t peer, const std::string& said) {
  std::string text = peer < 0 ? said : "peer " + std::to_string(peer) + ": " + said;
  for (const auto& [index, p] : peers_) {  // peers name each other by what they are in the membership
    const auto at = p.id.empty() ? std::string::npos : text.find("peer " + p.id);
    if (at != std::string::npos) text.replace(at + 5, p.id.size(), std::to_string(index));
  }
  events_.emplace_back(when, std::move(text));
  if (events_.size() > most_events) events_.erase(events_.begin(), events_.begin() + most_events / 2);
}

void run_records::fold(peer_figures& p, const std::string& kind, const json_value& line) {
  const auto index = static_cast<std::uint32_t>(number(line, "peer"));
  p.last_said = std::max(p.last_said, number(line, "ts"));
  if (line.find("step") != nullptr) p.step = whole(number(line, "step"));
  if (line.find("round") != nullptr) p.round = whole(number(line, "round"));
  p.validation = number(line, "validation_loss", p.validation);
  if (kind == "start") {
    ++p.starts;
    p.ended = false;
    p.id = text(line, "id");
    others_.erase(p.id);
    p.stage = static_cast<std::int64_t>(number(line, "stage", -1));
    before_[index] = {p.bytes_sent, p.bytes_received};
    if (p.starts > 1) note(number(line, "ts"), index, "started again");
  } else if (kind == "step") {
    p.loss = number(line, "loss", p.loss);
    p.tokens += number(line, "tokens");
    p.compute_seconds += number(line, "compute_seconds");
    p.exchange_seconds += number(line, "exchange_seconds");
  } else if (kind == "round") {
    ++p.rounds;
    p.peers = static_cast<std::uint32_t>(whole(number(line, "peers")));
    p.tokens_per_second = number(line, "tokens_per_second");
    p.bytes_sent = before_[index].first + number(line, "bytes_sent");
    p.bytes_received = before_[index].second + number(line, "bytes_received");
  } else if (kind == "event") {
    p.warnings += text(line, "level").empty() ? 0 : 1;
  } else if (kind == "told") {
    if (const json_value* const others = line.find("others")) hear(*others);
  } else if (kind == "end") {
    const json_value* const interrupted = line.find("interrupted");
    p.ended = interrupted != nullptr && !interrupted->boolean;
  }
}

void run_records::hear(const json_value& others) {
  for (const json_value& said : others.items) {
    const std::string id = text(said, "peer");
    const bool is_here = std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) { return p.second.id == id; });
    if (is_here || (others_.size() >= most_others && !others_.contains(id))) continue;
    others_[id] = {text(said, "address"),          whole(number(said, "step")),       whole(number(said, "round")),
                   number(said, "loss"),           number(said, "tokens_per_second"), number(said, "bytes_sent"),
                   number(said, "blocked_seconds")};
  }
}

void run_records::thin(const group_key& key, group& g) {
  const bool plotted = key.second == "step" || key.second == "round" || key.second == "told";
  const std::size_t most = key.second.starts_with("links") ? most_links
                           : plotted ? std::max(fewest_steps, most_steps / std::max<std::size_t>(1, peers_.size()))
                                     : most_events;
  if (g.kept <= most) return;
  while (plotted && g.seen / g.stride > most / 2) g.stride *= 2;
  const std::uint64_t newest = plotted ? newest_kept : most / 2;
  const auto goes = [&](const record& r) {
    const bool regular = plotted && r.in_group % g.stride == 0;
    return r.key == &key && !regular && r.in_group + newest < g.seen;
  };
  g.kept -= std::erase_if(records_, goes);
}

std::string run_records::state(std::uint64_t generation, std::uint64_t since) const {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto first = std::find_if(records_.begin(), records_.end(),
                                  [&](const record& r) { return generation != generation_ || r.number >= since; });
  std::string records = "[";
  for (auto at = first; at != records_.end(); ++at) records.append(at == first ? "\n" : ",\n").append(at->text);
  json_line all;
  all.add("schema", metrics_schema).add("version", CAUSEWAY_VERSION_STRING);
  all.add("generation", generation_).add("next", next_).moment("now", now);
  all.raw("settings", settings_json(folder_));
  all.raw("peers", json_list(peers_, [](const auto& one) {
            return json_line{}.add("index", one.first).add("running", one.second.running).text();
          }));
  return all.raw("records", records + "]").text();
}

}  // namespace app
