// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

std::string environment_name(const std::string& name) {
  std::string upper = "CAUSEWAY_";
  for (const char c : name) upper += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

setting* find(std::vector<setting>& all, std::string_view name) {
  for (auto& s : all) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

// Letters to insert, drop or change to get from one word to the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

std::string nearest(const std::vector<setting>& all, std::string_view wanted) {
  const auto closer = [&](const setting& a, const setting& b) {
    return distance(a.name, wanted) < distance(b.name, wanted);
  };
  const auto best = std::min_element(all.begin(), all.end(), closer);
  if (distance(best->name, wanted) <= 3) return "; did you mean " + best->name + "?";
  for (const auto& s : all) {  // the section may have been left out
    if (s.name.ends_with("." + std::string{wanted})) return "; did you mean " + s.name + "?";
  }
  return "; `causeway --help` lists all settings";
}

causeway::result<void> assign(std::vector<setting>& all, const std::string& name, const std::string& text,
                              const std::string& where, origins& from) {
  setting* s = find(all, name);
  if (s == nullptr) return fail(errc::invalid_argument, where, "there is no setting " + name + nearest(all, name));
  if (!s->set(text)) {
    return fail(errc::invalid_argument, where, "'" + text + "' does not fit " + name + " (" + s->help + ")");
  }
  from[name] = where;
  return {};
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
    CAUSEWAY_TRY(assign(all, name, text_of(node), where + ":" + std::to_string(node.source().begin.line), from));
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
    if (value != nullptr && *value != '\0') CAUSEWAY_TRY(assign(all, s.name, value, variable, from));
  }
  return {};
}

// A flag as it was given. Only switches may stand without a value.
struct given_flag {
  std::string name;
  std::optional<std::string> value;
};

causeway::result<void> apply_flag(std::vector<setting>& all, const given_flag& flag, origins& from) {
  const setting* const s = find(all, flag.name);
  if (s != nullptr && !s->is_switch && !flag.value)
    return fail(errc::invalid_argument, "--" + flag.name, "needs a value: " + s->help);
  return assign(all, flag.name, flag.value.value_or("true"), "--" + flag.name, from);
}

const std::map<std::string, std::string> short_names{{"peers", "net.peers"},
                                                     {"listen", "net.listen"},
                                                     {"steps", "train.steps"},
                                                     {"seed", "run.seed"},
                                                     {"prompt", "sample.prompt"},
                                                     {"threads", "net.threads"},
                                                     {"restart", "run.restart"},
                                                     {"links", "sim.links"},
                                                     {"faults", "sim.faults"},
                                                     {"seeds", "sim.seeds"},
                                                     {"history", "sim.history"},
                                                     {"page", "watch.page"},
                                                     {"tensorboard", "watch.tensorboard"}};

bool is_flag(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

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

causeway::result<command_line> parse(const std::vector<std::string>& arguments, settings& s, origins& from) {
  command_line line;
  std::vector<given_flag> flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "--help" || a == "-h") {
      line.command = "help";
      return line;
    }
    if (a == "--version") {
      line.command = "version";
      return line;
    }
    if (a == "--effective") {
      line.effective = true;
    } else if (a.starts_with("@")) {
      CAUSEWAY_TRY(apply_file(a.substr(1), s, from));
    } else if (is_flag(a)) {
      std::string name = a.substr(2);
      std::optional<std::string> value;
      if (const auto equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      } else if (i + 1 < arguments.size() && !is_flag(arguments[i + 1])) {
        value = arguments[++i];
      }
      const auto full = short_names.find(name);
      if (full != short_names.end()) name = full->second;
      flags.push_back({name, value});
    } else if (line.command.empty()) {
      line.command = a;
    } else {
      line.positional.push_back(a);
    }
  }
  auto all = table(s);
  CAUSEWAY_TRY(apply_environment(all, from));
  for (const given_flag& flag : flags) CAUSEWAY_TRY(apply_flag(all, flag, from));
  take_policy_defaults(s, from);
  if (line.command.empty()) line.command = "help";
  return line;
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
