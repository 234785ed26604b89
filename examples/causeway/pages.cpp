// SPDX-License-Identifier: Apache-2.0
#include "pages.hpp"

#include <causeway/config/version.hpp>

#include <cstddef>
#include <string_view>

#include "commands.hpp"
#include "named_presets.hpp"
#include "pipeline_recoveries.hpp"
#include "policies.hpp"
#include "settings.hpp"

namespace app {
namespace {

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

// What stands in a cell of a table may hold no bar.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string{"\\|"} : std::string{c};
  return out;
}

std::string row(const setting& s) {
  const bool lists_policies = s.name == "comm.policy";
  const std::string values = lists_policies ? "see below" : allowed_text(s);
  const std::string kind = s.type + (s.unit.empty() ? "" : ", " + s.unit);
  return "| `" + s.name + "` | " + code(s.alias.empty() ? "" : "--" + s.alias) + " | " + kind + " | " + cell(values) +
         " | " + code(default_text(s)) + " | " + cell(s.help) + " |\n";
}

std::string words_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

std::string flags_of(const std::vector<setting>& all) {
  std::vector<std::string> words{"--help"};
  for (const setting& s : all) {
    if (!s.alias.empty()) words.push_back("--" + s.alias);
    words.push_back("--" + s.name);
  }
  return words_of(words);
}

// A case of the shell's for each setting that takes one of some words.
std::string value_cases(const std::vector<setting>& all) {
  std::string text;
  for (const setting& s : all) {
    const std::vector<std::string> words = s.is_switch ? std::vector<std::string>{"true", "false"} : s.allowed.words;
    if (words.empty()) continue;
    text += "    --" + s.name + (s.alias.empty() ? "" : " | --" + s.alias) + ") words=\"" + words_of(words) + "\" ;;\n";
  }
  return text;
}

// A dot or an apostrophe at the start of a line, and backslashes and hyphens anywhere, mean something to roff.
std::string roff(const std::string& text) {
  std::string out = text.starts_with(".") || text.starts_with("'") ? "\\&" : "";
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '"' ? "\\(dq" : std::string{c};
  return out;
}

// Eight peers, and a policy with what it sets by itself.
settings eight_peers(const std::string& comm, std::string_view parallel, std::string_view fault) {
  settings s;
  s.comm.policy = comm;
  s.parallel.policy = parallel;
  s.fault.policy = fault;
  s.net.peers = 8;
  s.comm.local_steps = 10;
  take_policy_defaults(s, {{"comm.policy", "here"}, {"comm.local_steps", "here"}});
  s.train.steps = 10 * steps_of_round(s);
  return s;
}

// What of `columns` goes with each policy of `rows`, as a table, and how many.
struct table_of_mixes {
  template <class Goes>
  table_of_mixes(const std::vector<std::string>& rows, const std::vector<std::string>& columns, Goes goes) {
    std::string line = "|---|";
    text = "| |";
    for (const std::string& column : columns) text += " " + column + " |", line += "---|";
    text += "\n" + line + "\n";
    for (const std::string& row : rows) {
      text += "| `" + row + "` |";
      for (std::size_t c = 0; c < columns.size(); ++c, ++all) {
        const bool yes = goes(row, c);
        text += yes ? " yes |" : " |";
        taken += yes ? 1 : 0;
      }
      text += "\n";
    }
  }
  [[nodiscard]] std::string counted() const { return std::to_string(taken) + " of " + std::to_string(all); }

  std::string text;
  std::size_t taken = 0, all = 0;
};

std::string compositions() {
  constexpr std::string_view parallels[] = {"data", "pipeline", "swarm"}, faults[] = {"fail_stop", "quorum"};
  std::vector<std::string> columns, in_pipelines, recoveries = recovery_names();
  for (const auto parallel : parallels) {
    for (const auto fault : faults) columns.push_back(std::string{parallel} + ", `" + std::string{fault} + "`");
  }
  const table_of_mixes mixes{policy_names(), columns, [&](const std::string& comm, std::size_t column) {
                               settings s = eight_peers(comm, parallels[column / 2], faults[column % 2]);
                               if (has_stages(s)) s.parallel.stages = 2;
                               const bool goes = validate(s).has_value();
                               if (goes && is_elastic_pipeline(s)) in_pipelines.push_back(comm);
                               return goes;
                             }};
  const std::vector<std::string> names = recoveries;
  for (std::string& name : recoveries) name = "`" + name + "`";
  const table_of_mixes stages{in_pipelines, recoveries, [&](const std::string& comm, std::size_t column) {
                                settings s = eight_peers(comm, "pipeline", "quorum");
                                s.parallel.recovery = names[column];
                                return validate(s).has_value();
                              }};
  return "\n## What goes together\n\nWhat `causeway train` takes: each `comm.policy`, with what it sets by itself, with "
         "each\n`parallel.policy` and `fault.policy`. " +
         mixes.counted() +
         "; [why the others do not](rules.md#which-mixes-work). `restart`\ntakes what `fail_stop` does.\n\n" + mixes.text +
         "\nAnd of those in a pipeline under `quorum`, with each `parallel.recovery`: " + stages.counted() +
         "; rule [C8](rules.md#c8) refuses the\nothers.\n\n" + stages.text;
}

}  // namespace

std::string settings_page() {
  const std::vector<setting> all = options_of(*find_command("train"));
  std::string text =
      "# Settings of a run\n\n"
      "Written by `causeway config reference`. A setting is a line of a TOML file (`causeway train @run.toml`: `[train]`, "
      "then\n"
      "`batch = 8`), a variable (`CAUSEWAY_TRAIN_BATCH=8`), or a flag (`--train.batch 8`, and `--batch-size 8` where there "
      "is a short\n"
      "one); later ones win. In flags `-` and `_` are the same. `causeway config` shows where each value comes from. A "
      "default \"by\n"
      "policy\" is that of the communication policy, for which alone the setting means something.\n";
  std::string section;
  for (const setting& s : all) {
    const auto dot = s.name.find('.');
    const std::string of = dot == std::string::npos ? "others" : s.name.substr(0, dot);
    if (of != section) {
      text += "\n## " + (section = of) +
              "\n\n| name | flag | type, unit | allowed | default | what |\n|---|---|---|---|---|---|\n";
    }
    text += row(s);
  }
  return text + "\n## Communication policies\n\nThe values of `comm.policy`, and what each sets by itself:\n\n```\n" +
         policy_help() +
         "```\n\nAll of them also train with `fault.policy = \"quorum\"`.\n\n## Systems of several settings\n\nWhat "
         "`run.preset` (`--preset`) takes besides these names, and what each "
         "sets:\n\n```\n" +
         preset_help() + "```\n" + compositions();
}

std::string bash_completion() {
  std::vector<std::string> names{"help", "--help", "--version"};
  std::string cases;
  for (const command& c : all_commands()) {
    names.push_back(c.name);
    if (c.options) cases += "    " + c.name + ") words=\"" + flags_of(c.options()) + "\" ;;\n";
  }
  const std::vector<setting> all = options_of(*find_command("train"));
  return "# bash completion for causeway, written by `causeway config completion`\n"
         "_causeway() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         words_of(names) +
         "\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case $before in\n    help) words=\"" +
         words_of(names) + "\" ;;\n" + value_cases(all) +
         "  esac\n"
         "  if [ -n \"$words\" ]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases + "    *) words=\"--help-all " + flags_of(all) +
         "\" ;;\n"
         "  esac\n"
         "  case $current in\n"
         "    --*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
         "    @*) COMPREPLY=($(compgen -f -P @ -- \"${current#@}\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _causeway causeway\n";
}

std::string manual_page() {
  std::string text = ".TH CAUSEWAY 1 \"\" \"causeway " CAUSEWAY_VERSION_STRING
                     "\" \"User commands\"\n"
                     ".SH NAME\ncauseway \\- train one transformer on many machines joined by slow links\n"
                     ".SH SYNOPSIS\n";
  for (const command& c : all_commands()) text += ".B causeway " + roff(c.name) + "\n" + roff(c.synopsis) + "\n.br\n";
  text += ".SH COMMANDS\n";
  for (const command& c : all_commands()) {
    text += ".TP\n.B " + roff(c.name) + "\n" + roff(c.summary) + "\n";
    for (const auto& [line, what] : c.examples)
      text += ".br\n.I " + roff(line) + "\n" + (what.empty() ? "" : ".br\n" + roff(what) + "\n");
  }
  text += ".SH SETTINGS\nFrom a TOML file (@FILE), variables CAUSEWAY_SECTION_NAME, or flags; later ones win.\n";
  for (const setting& s : options_of(*find_command("train"))) {
    const std::string values = s.name == "comm.policy" ? "" : allowed_text(s), usual = default_text(s);
    text += ".TP\n.B " + roff((s.alias.empty() ? "" : "--" + s.alias + ", ") + "--" + s.name) + "\n" + roff(s.help) + ". " +
            roff(values.empty() ? "" : "Allowed: " + values + ". ") + roff(usual.empty() ? "" : "Default: " + usual + ".") +
            "\n";
  }
  return text +
         ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong use, 130 interrupted (all that was committed is saved).\n"
         ".SH SEE ALSO\nThe documentation in the package's doc folder, and `causeway COMMAND \\-\\-help`.\n";
}

}  // namespace app
