// SPDX-License-Identifier: Apache-2.0
// The command line program: trains, joins, generates, shows settings. Everything it does is in the library; what is here
// reads settings, starts peers, and talks to people.

#include <causeway/config/version.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "commands.hpp"
#include "corpus.hpp"
#include "draw_schedule.hpp"
#include "elastic_run.hpp"
#include "export_run.hpp"
#include "fixed_run.hpp"
#include "join_run.hpp"
#include "journal.hpp"
#include "launch.hpp"
#include "launched_rank.hpp"
#include "mpi_job.hpp"
#include "page_text.hpp"
#include "pages.hpp"
#include "path_layout.hpp"
#include "plan_pipeline.hpp"
#include "policies.hpp"
#include "replay_trace.hpp"
#include "report.hpp"
#include "run_folder.hpp"
#include "run_model.hpp"
#include "serve.hpp"
#include "settings.hpp"
#include "simulate.hpp"
#include "starting_model.hpp"
#include "stop.hpp"
#include "supervise.hpp"
#include "tokenize.hpp"
#include "watch_run.hpp"

namespace app { namespace {

using causeway::errc;
using causeway::fail;

bool elastic(const settings& s) { return s.fault.policy == "quorum"; }

// The run's folder says what was trained; what is given here wins.
causeway::result<text_codec> know_run(settings& s, const origins& from) {
  CAUSEWAY_TRY(check_run_name(s));
  const std::string folder = run_folder(s);
  if (const auto kept = kept_settings(folder)) CAUSEWAY_TRY(fill_in(s, from, *kept, settings_file(folder)));
  auto codec = text_codec::load(s, folder);
  if (!codec) {
    return fail(errc::not_found, folder, "no trained run of this name; train first, or name one with --run.name");
  }
  if (s.parallel.store.empty()) CAUSEWAY_TRY(agree_on_store(s, folder));  // what is given here is for this once
  return codec;
}

causeway::result<int> generate(settings s, const origins& from) {
  CAUSEWAY_ASSIGN(text_codec codec, know_run(s, from));
  const text_sink to = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  if (trains_paths(s) && s.comm.route_within > 0 && s.sample.path < 0) {
    CAUSEWAY_TRY(write_by_paths(s, codec, to));
  } else {
    CAUSEWAY_ASSIGN(chosen_model model, trained_model(s, codec));
    CAUSEWAY_TRY(model.sample(codec, s, to));
  }
  std::printf("\n");
  return 0;
}

causeway::result<int> export_to(settings s, const origins& from, const std::vector<std::string>& positional) {
  if (positional.size() != 1)
    return fail(errc::invalid_argument, "export", "say where to: causeway export DIR, or causeway export FILE.gguf");
  CAUSEWAY_ASSIGN(text_codec codec, know_run(s, from));
  return export_run(s, codec, positional[0]);
}

// Peers that stay; and text where all stages are here, now that all have saved.
causeway::result<int> train(settings s, const origins& from, stop_watch& watch) {
  CAUSEWAY_ASSIGN(const int status, train_fixed(s, from, watch));
  const bool began_it = s.net.join.empty() && s.net.static_peers.empty() && s.net.peers > 1;
  return status == 0 && began_it && is_pipeline(s) && !s.quiet ? generate(std::move(s), from) : status;
}

// Peers that come and go: alone or with others on this machine, as the one that founds the run or as one that joins.
causeway::result<int> train_elastic(settings s, stop_watch& watch) {
  if (s.net.threads == 0) s.net.threads = default_threads(s);
  CAUSEWAY_TRY(make_run_folder(s));
  if (!s.net.listen.empty() && !is_swarm(s)) return run_founder(std::move(s), watch);
  return supervise(std::move(s), watch);
}

// The run that is trained elsewhere says itself what it is.
causeway::result<int> join(settings s, const origins& from, stop_watch& watch) {
  CAUSEWAY_ASSIGN(joined_run run, learn_run(std::move(s), from));
  if (!elastic(run.s)) return train(std::move(run.s), from, watch);
  if (run.s.net.threads == 0) run.s.net.threads = default_threads(run.s);
  return run_joiner(std::move(run.s), run.new_here, watch);
}

causeway::result<int> show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int show_settings(settings& s, const origins& from) {
  for (const auto& item : table(s)) {
    const auto origin = from.find(item.name);
    const std::string by_itself = sets_by_itself(s.comm.policy, item.name) ? "default of " + s.comm.policy : "default";
    std::printf("%-26s = %-24s # %s\n", item.name.c_str(), item.get().c_str(),
                origin == from.end() ? by_itself.c_str() : origin->second.c_str());
  }
  return 0;
}

// The settings as they are, or a page that is written from their table.
causeway::result<int> configure(settings& s, const origins& from, const std::vector<std::string>& positional) {
  if (positional.empty()) return show_settings(s, from);
  const std::string& page = positional[0];
  const std::string text = page == "reference"    ? settings_page()
                           : page == "completion" ? bash_completion()
                           : page == "manual"     ? manual_page()
                                                  : "";
  if (text.empty()) return fail(errc::invalid_argument, page, "is not a page; use reference, completion or manual");
  return show(text);
}

// What a command of a run does with the settings it was given.
causeway::result<int> act(const command_line& line, settings s, const origins& from, stop_watch& watch, mpi_job& job) {
  if (line.command == "join") {
    if (line.positional.size() != 1) return fail(errc::invalid_argument, "join", "say where: causeway join HOST:PORT");
    s.net.join = line.positional[0];
    CAUSEWAY_TRY(job.enter(s, from));
    if (job.computes_for_another()) return job.serve(s);
    return join(std::move(s), from, watch);
  }
  if (line.command == "check-journal") {
    if (line.positional.empty()) return fail(errc::invalid_argument, "check-journal", "say where: the folder of a run");
    return check_journals(line.positional);
  }
  const bool looks = line.command == "watch" || line.command == "report";
  if (looks && line.positional.size() == 1) s.run.name = line.positional[0];
  if (looks && line.positional.size() > 1) {
    return fail(errc::invalid_argument, line.command, "one run at a time: causeway " + line.command + " NAME");
  }
  if (line.command == "watch") return watch_run(s);
  if (line.command == "report") return report_run(s);
  if (line.command == "peer") return run_sibling(std::move(s), from, watch, !line.positional.empty());
  if (line.command == "server") return serve_run(std::move(s), from, watch);
  if (line.command == "tokenize") return tokenize(std::move(s), line.positional);
  if (line.command == "export") return export_to(std::move(s), from, line.positional);
  if (line.command == "config") return configure(s, from, line.positional);
  if (!line.positional.empty()) {
    return fail(errc::invalid_argument, line.positional[0],
                "is not a setting; settings start with --, files with @, and a text is named with --data");
  }
  if (line.command == "train") {
    CAUSEWAY_TRY(job.enter(s, from));
    if (job.computes_for_another()) return job.serve(s);
    if (!job.ranks_are_peers() && s.net.sites == 0) CAUSEWAY_TRY(take_rank(s, from));
  }
  if (line.command == "serve") return serve(std::move(s), from, watch);
  const bool starts = (line.command == "train" && s.net.join.empty()) || line.command == "simulate";
  if (starts) CAUSEWAY_TRY(take_init(s, from));
  if (line.command == "simulate" && !from.contains("comm.fragments")) {  // of the stand-in, a tensor for each block
    s.comm.fragments = static_cast<std::uint32_t>(std::min<std::int64_t>(s.comm.fragments, s.model.layers + 1));
  }
  CAUSEWAY_TRY(validate(s));
  if (line.command == "generate") return generate(s, from);
  if (line.command == "simulate" && s.fault.policy == "restart") {
    return fail(errc::unsupported, "fault.policy", "simulate starts no run again; train one, or use fail_stop or quorum");
  }
  if (line.command == "simulate" && is_swarm(s)) {
    return fail(errc::unsupported, "parallel.policy", "simulate has no swarms; train one, or use data or pipeline");
  }
  if (line.command == "simulate" && is_async_pipeline(s)) {
    return fail(errc::unsupported, "parallel.policy", "simulate has no async_pipeline; train one, or use data or pipeline");
  }
  if (line.command == "simulate" && has_servers(s)) {
    return fail(errc::unsupported, "parallel.policy", "simulate has no servers; train with them, or use data or pipeline");
  }
  if (line.command == "simulate") return simulate(std::move(s));
  if (job.ranks_are_peers()) return train_as_rank(std::move(s), job, watch);
  if (!s.net.join.empty()) return join(std::move(s), from, watch);
  return elastic(s) ? train_elastic(std::move(s), watch) : train(std::move(s), from, watch);
}

causeway::error no_command(const std::string& name) {
  if (name.empty()) return fail(errc::invalid_argument, "causeway", "say what to do, as train; `causeway help` lists all");
  std::vector<std::string> names;
  for (const command& c : all_commands()) names.push_back(c.name);
  const std::string guess = nearest(names, name);
  return fail(errc::invalid_argument, name,
              "is not a command" + (guess.empty() ? "; " : "; did you mean " + guess + "? ") + "`causeway help` lists all");
}

// `causeway help`, `causeway help COMMAND`, and --help anywhere.
causeway::result<int> show_help(const command_line& line) {
  const bool by_word = line.command == "help";
  const std::string wanted = !by_word ? line.command : line.positional.empty() ? "" : line.positional[0];
  if (wanted.empty()) return show(overview());
  const command* const c = find_command(wanted);
  return c == nullptr ? causeway::result<int>{no_command(wanted)} : show(help_of(*c, line.help_all));
}

causeway::result<int> run(std::vector<std::string> arguments, mpi_job& job) {
  if (arguments.empty()) return std::fputs(overview().c_str(), stderr), 2;
  if (arguments[0] == "--version" || arguments[0] == "version") return show("causeway " CAUSEWAY_VERSION_STRING "\n");
  if (arguments[0] == "config") std::erase(arguments, "--effective");  // which is what it shows
  const command* const c = find_command(arguments[0]);
  settings s;
  std::vector<setting> known = c != nullptr && c->options ? c->options() : table(s);
  const command_line line = split(arguments, known);
  if (line.help || line.command == "help") return show_help(line);
  if (line.command == "plan") return plan_pipeline(line);
  if (line.command == "replay") return replay_trace(line);
  if (line.command == "schedule") return draw_schedule(line);
  if (find_command(line.command) == nullptr && line.command != "peer" && line.command != "server")
    return no_command(line.command);
  stop_watch watch;
  origins from;
  CAUSEWAY_TRY(take_settings(line, s, from));
  CAUSEWAY_TRY(choose_tokenizer(s, from));
  auto status = act(line, std::move(s), from, watch, job);
  if (status) CAUSEWAY_TRY(job.leave(*status == interrupted));
  return status;
}

// As shells and other programs have it: 2 says that the command cannot work as it was given.
int exit_status(errc code) { return code == errc::cancelled ? interrupted : code == errc::invalid_argument ? 2 : 1; }

int end_with(const causeway::error& what, bool aloud) {
  if (aloud) std::fprintf(stderr, "causeway: %s\n", what.text().c_str());
  return exit_status(what.code);
}

}}  // namespace app

int main(int argc, char** argv) {
  app::mpi_job job{argc > 1 ? argv[1] : ""};
  const auto status = app::run({argv + 1, argv + argc}, job);
  return status ? *status : job.end(status.error(), app::end_with);
}
