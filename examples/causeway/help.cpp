// SPDX-License-Identifier: Apache-2.0
// What people read on a terminal: `causeway help` and `causeway COMMAND --help`.

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "commands.hpp"
#include "named_presets.hpp"
#include "policies.hpp"
#include "settings.hpp"

namespace app {
namespace {

constexpr std::size_t column = 34, line_width = 100;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 2, width), ' ');
  return text;
}

// `text` in lines, the second and later ones indented as far as the first begins.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t at = indent;
  std::istringstream words{text};
  for (std::string word; words >> word;) {
    const bool breaks = at != indent && at + 1 + word.size() > line_width;
    if (breaks) out += "\n" + std::string(indent, ' ');
    if (at != indent && !breaks) out += " ";
    at = breaks ? indent + word.size() : at + (at == indent ? 0 : 1) + word.size();
    out += word;
  }
  return out + "\n";
}

// What the setting is, the words that it takes unless these were said already, and its default.
std::string description_of(const setting& s) {
  const auto& words = s.allowed.words;
  const bool says_words = words.empty() || s.name == "comm.policy" || s.help.find(words.back()) != std::string::npos;
  const std::string usual = default_text(s);
  const bool says_default = !usual.empty() && !s.is_switch;
  return s.help + (says_words ? "" : ": " + allowed_text(s)) + (says_default ? " [" + usual + "]" : "");
}

std::string line_of(const setting& s) {
  const std::string flag = s.alias.empty() ? "  --" + s.name : "  --" + s.alias + ", --" + s.name;
  const std::string text = wrapped(description_of(s), column);
  return flag.size() + 2 <= column ? padded(flag, column) + text : flag + "\n" + std::string(column, ' ') + text;
}

std::string groups_of(const command& c, std::vector<setting>& all) {
  std::string text;
  for (const setting_group& group : c.common) {
    text += "\n" + group.title + ":\n";
    for (const std::string& name : group.names) text += line_of(*find(all, name));
  }
  return text;
}

std::string all_of(const std::vector<setting>& all) {
  std::string text, section = ".";
  for (const setting& s : all) {
    const std::string of = s.name.substr(0, s.name.find('.'));
    if (s.name.find('.') != std::string::npos && of != section) text += "\n" + (section = of) + ":\n";
    text += line_of(s);
  }
  return text;
}

std::string policies_text() {
  return "\nPolicies (--comm), and what they set by themselves:\n" + policy_help() +
         "\nAll of them also train with --fault quorum.\n\nSystems of several settings (--preset, which also takes the "
         "policies), and what they set:\n" +
         preset_help();
}

}  // namespace

std::string default_text(const setting& s) { return of_some_policies(s.name) ? "by policy" : s.get(); }

std::vector<setting> options_of(const command& c) {
  static settings usual;  // the table refers to it
  return c.options ? c.options() : table(usual);
}

std::string overview() {
  std::string text = "causeway: train one transformer on many machines joined by slow links\n\nCommands:\n";
  for (const command& c : all_commands()) text += padded("  " + c.name, 18) + wrapped(c.summary, 18);
  text +=
      "\n  causeway train --data book.txt --peers 4      train on a text with four peers on this machine\n"
      "  causeway generate --prompt \"In the beginning\" write text with what was trained\n"
      "\n`causeway COMMAND --help` shows the common settings of a command, `causeway train --help-all` all of\n"
      "them and all communication policies. Settings come from a TOML file (@FILE), CAUSEWAY_SECTION_NAME\n"
      "variables, or flags; later ones win. Exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted.\n";
  return text;
}

std::string help_of(const command& c, bool all) {
  std::vector<setting> options = options_of(c);
  std::string text = "causeway " + c.name + " " + c.synopsis + "\n\n  " + wrapped(c.summary, 2);
  if (!c.examples.empty()) text += "\nExamples:\n";
  for (const auto& [line, what] : c.examples) text += "  " + line + "\n" + (what.empty() ? "" : "      " + what + "\n");
  if (c.options) {
    text += "\nOptions:\n" + all_of(options);
  } else if (all) {
    text += all_of(options) + policies_text();
  } else {
    text += groups_of(c, options) + "\n`causeway " + c.name + " --help-all` shows all settings.\n";
  }
  if (!c.more.empty()) text += "\n" + c.more + "\n";
  return text;
}

}  // namespace app
