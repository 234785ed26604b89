// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "command_line.hpp"
#include "named_presets.hpp"
#include "option.hpp"
#include "policies.hpp"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

constexpr const char* list_of_settings = "`causeway config` shows all";

std::string environment_name(const std::string& name) {
  std::string upper = "CAUSEWAY_";
  for (const char c : name) upper += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

std::string text_of(const toml::node& node) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_integer()) return std::to_string(v->get());
  if (const auto* v = node.as_floating_point()) {
    char digits[64];
    return {digits, std::to_chars(digits, digits + sizeof digits, v->get()).ptr};
  }
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  std::string joined;
  if (const auto* list = node.as_array()) {
    for (const auto& item : *list) joined += (joined.empty() ? "" : ",") + text_of(item);
  }
  return joined;
}

causeway::result<void> apply_table(const toml::table& table, const std::string& prefix, const std::string& where,
                                   std::vector<setting>& all, origins& from) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string{key.str()};
    if (const auto* inner = node.as_table()) {
      CAUSEWAY_TRY(apply_table(*inner, name + ".", where, all, from));
      continue;
    }
    const std::string place = where + ":" + std::to_string(node.source().begin.line);
    CAUSEWAY_ASSIGN(const setting* const set, assign(all, name, text_of(node), place, list_of_settings));
    from[set->name] = place;
  }
  return {};
}

causeway::result<void> apply_file(const std::string& path, settings& s, origins& from) {
  std::ifstream file{path};
  if (!file) return fail(errc::not_found, path, "cannot be read; @FILE names a TOML file with settings");
  std::ostringstream text;
  text << file.rdbuf();
  return apply_toml(text.str(), path, s, from);
}

// A variable that is exported but empty says nothing. Those of launchers such as torchrun are launched_rank.hpp's business.
causeway::result<void> apply_environment(std::vector<setting>& all, origins& from) {
  for (const auto& s : all) {
    const std::string variable = environment_name(s.name);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    CAUSEWAY_TRY(assign(all, s.name, value, variable, list_of_settings));
    from[s.name] = variable;
  }
  return {};
}

}  // namespace

causeway::result<void> apply_toml(std::string_view text, const std::string& where, settings& s, origins& from) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(errc::invalid_argument, where + ":" + std::to_string(parsed.error().source().begin.line),
                "not valid TOML: " + std::string{parsed.error().description()});
  }
  auto all = table(s);
  return apply_table(parsed.table(), "", where, all, from);
}

void take_policy_defaults(settings& s, const origins& from) {
  if (is_swarm(s)) {
    if (!from.contains("comm.policy")) s.comm.policy = "every_step";
    if (!from.contains("train.micro_batches")) s.train.micro_batches = std::gcd<std::int64_t>(s.train.batch, 8);
  }
  const policy* const chosen = find_policy(s.comm.policy);
  if (chosen == nullptr) return;
  auto all = table(s);
  for (const auto& [name, value] : chosen->defaults) {
    setting* const item = find(all, name);
    if (item != nullptr && !from.contains(name)) item->set(value);
  }
  if (sets_by_itself(s.comm.policy, "comm.fragments") && !from.contains("comm.fragments")) {
    s.comm.fragments = static_cast<std::uint32_t>(std::min<std::size_t>(s.comm.fragments, most_fragments(s)));
  }
}

causeway::result<void> take_settings(const command_line& line, settings& s, origins& from) {
  for (const std::string& file : line.files) CAUSEWAY_TRY(apply_file(file, s, from));
  auto all = table(s);
  CAUSEWAY_TRY(apply_environment(all, from));
  CAUSEWAY_TRY(take_flags(line, all, [&](const setting& item, const std::string& where) { from[item.name] = where; }));
  take_preset(s, from);
  take_policy_defaults(s, from);
  return {};
}

std::string to_toml(settings& s, bool shared_only) {
  std::string text;
  std::string section;
  for (const auto& item : table(s)) {
    if (shared_only && item.local) continue;
    const auto dot = item.name.find('.');
    if (dot == std::string::npos) continue;
    const std::string group = item.name.substr(0, dot);
    if (group != section) text += (text.empty() ? "[" : "\n[") + group + "]\n";
    section = group;
    std::string quoted = "\"";
    for (const char c : item.get()) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (c == '\n') {
        quoted += "\\n";
      } else {
        quoted += c;
      }
    }
    text += item.name.substr(dot + 1) + " = " + quoted + "\"\n";
  }
  return text;
}

}  // namespace app
