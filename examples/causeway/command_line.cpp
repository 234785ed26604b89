// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <algorithm>
#include <utility>

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

bool is_flag(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// The name that was probably meant: that of an alias; else one of the section that was said, or of any, in which what was
// said is a word, as momentum is in comm.outer_momentum; else a small slip of one; else a slip of the last part of one,
// whatever section was said or left out.
std::string guess_of(const std::vector<setting>& all, const std::string& wanted) {
  const std::string last = last_part(wanted), section = wanted.substr(0, wanted.size() - last.size());
  std::vector<std::string> names, last_parts;
  for (const setting& s : all) {
    if (s.alias == last) return s.name;
    names.push_back(s.name);
    if (!s.alias.empty() && section.empty()) names.push_back(s.alias);
    last_parts.push_back(last_part(s.name));
  }
  for (const setting& s : all) {
    if (s.name.starts_with(section) && ("_" + last_part(s.name) + "_").find("_" + last + "_") != std::string::npos)
      return s.name;
  }
  if (const std::string near = nearest(names, wanted); !near.empty()) return near;
  const std::string part = nearest(last_parts, last);
  const auto same = std::find(last_parts.begin(), last_parts.end(), part);
  return same == last_parts.end() ? std::string{} : all[static_cast<std::size_t>(same - last_parts.begin())].name;
}

// That name as a question, before the sentence that says where all are.
std::string did_you_mean(const std::vector<setting>& all, const std::string& wanted) {
  const std::string guess = guess_of(all, wanted);
  return guess.empty() ? "; " : "; did you mean " + guess + "? ";
}

std::string what_fits(const setting& s) {
  const std::string values = allowed_text(s);
  const std::string article = s.type == "integer" ? "an " : s.type.ends_with("s") ? "" : "a ";
  const std::string kind = s.is_switch ? "true or false" : article + s.type + (s.type.ends_with("s") ? ", as 1,2" : "");
  return kind + (values.empty() ? "" : ", " + values) + " (" + s.help + ")";
}

std::string list_of(const std::string& command) { return "`causeway " + command + " --help-all` lists all"; }

}  // namespace

command_line split(const std::vector<std::string>& arguments, std::vector<setting>& known) {
  command_line line;
  const auto takes = [&](const std::string& name, const std::string& next) {
    const setting* const s = find(known, name);
    return s != nullptr && s->is_switch ? next == "true" || next == "false" : !is_flag(next);
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "--help" || a == "-h" || a == "--help-all") {
      line.help = true;
      line.help_all = line.help_all || a == "--help-all";
    } else if (a.size() > 1 && a.starts_with("@")) {
      line.files.push_back(a.substr(1));
    } else if (is_flag(a)) {
      given_flag flag{a.substr(2), std::nullopt};
      if (const auto equals = flag.name.find('='); equals != std::string::npos) {
        flag.value = flag.name.substr(equals + 1);
        flag.name.resize(equals);
      } else if (i + 1 < arguments.size() && takes(flag.name, arguments[i + 1])) {
        flag.value = arguments[++i];
      }
      line.flags.push_back(std::move(flag));
    } else if (line.command.empty()) {
      line.command = a;
    } else {
      line.positional.push_back(a);
    }
  }
  return line;
}

causeway::result<const setting*> assign(std::vector<setting>& all, const std::string& name, const std::string& text,
                                        const std::string& where, const std::string& list) {
  setting* const s = find(all, name);
  if (s == nullptr) {
    return fail(errc::invalid_argument, where, "there is no setting " + name + did_you_mean(all, name) + list);
  }
  if (!s->set(text)) {
    return fail(errc::invalid_argument, where, "'" + text + "' does not fit " + s->name + "; use " + what_fits(*s));
  }
  return s;
}

causeway::result<void> take_flags(const command_line& line, std::vector<setting>& all,
                                  const std::function<void(const setting&, const std::string&)>& note) {
  for (const given_flag& flag : line.flags) {
    const setting* const s = find(all, flag.name);
    const std::string where = "--" + (s == nullptr ? flag.name : s->name);
    if (s != nullptr && !s->is_switch && !flag.value)
      return fail(errc::invalid_argument, where, "needs a value: " + what_fits(*s));
    CAUSEWAY_ASSIGN(const setting* const set,
                    assign(all, flag.name, flag.value.value_or("true"), where, list_of(line.command)));
    note(*set, where);
  }
  return {};
}

causeway::result<void> take_options(const command_line& line, std::vector<setting> all) {
  std::vector<std::string> strange = line.positional;
  for (const std::string& file : line.files) strange.push_back("@" + file);
  if (!strange.empty()) {
    return fail(errc::invalid_argument, strange[0],
                "is not an option; options of " + line.command + " start with --, and " + list_of(line.command));
  }
  CAUSEWAY_TRY(take_flags(line, all, [](const setting&, const std::string&) {}));
  return check_allowed(all, "--");
}

causeway::result<void> check_allowed(const std::vector<setting>& all, const std::string& prefix) {
  for (const setting& s : all) {
    if (is_allowed(s)) continue;
    return fail(
        errc::invalid_argument, prefix + s.name,
        s.allowed.words.empty() ? "'" + s.get() + "'; use " + allowed_text(s) : choose_from(s.allowed.words, s.get()));
  }
  return {};
}

}  // namespace app
