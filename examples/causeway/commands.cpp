// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <algorithm>

#include "draw_schedule.hpp"
#include "plan_pipeline.hpp"
#include "replay_trace.hpp"

namespace app {
namespace {

const setting_group the_run{"Run", {"data.path", "run.name", "run.directory", "run.seed", "net.threads"}};
const setting_group sampling{"Text",
                             {"sample.prompt", "sample.tokens", "sample.temperature", "sample.top_k", "sample.top_p"}};

command train_command() {
  return {.name = "train",
          .synopsis = "[@run.toml] [--setting value ...]",
          .summary = "train a model; with --peers N, start N peers on this machine",
          .common = {{"Run", {"data.path", "run.name", "net.peers", "train.steps", "run.fresh"}},
                     {"Model",
                      {"model.init", "model.family", "model.layers", "model.heads", "model.width", "model.context",
                       "model.precision", "data.tokenizer"}},
                     {"Steps", {"train.batch", "train.learning_rate", "train.optimizer", "train.warmup"}},
                     {"Communication", {"comm.policy", "comm.local_steps", "comm.codec"}},
                     {"Machines and faults",
                      {"net.listen", "net.threads", "fault.policy", "parallel.policy", "run.preset", "watch.page"}}},
          .examples = {{"causeway train --data book.txt --peers 4", "four peers on this machine"},
                       {"causeway train --data book.txt --peers 3 --listen 0.0.0.0:29500",
                        "waits for two more, and prints the command that joins"},
                       {"causeway train --data book.txt --peers 8 --fault quorum",
                        "peers may die, come back and join at any time"},
                       {"causeway train --data book.txt --peers 4 --parallel pipeline --micro-batches 4",
                        "peers hold stages of the model"}},
          .more = "docs/how_to/several_machines.md, docs/how_to/elastic_runs.md"};
}

command join_command() {
  return {.name = "join",
          .synopsis = "HOST:PORT [--setting value ...]",
          .summary = "join a run on another machine; it says itself what it is",
          .common = {{"This machine",
                      {"net.threads", "net.listen", "net.announce", "net.region", "net.patience", "run.directory",
                       "data.path"}}},
          .examples = {{"causeway join 10.0.0.5:29500", "all settings and the text come from the run"}},
          .more = "docs/how_to/several_machines.md"};
}

command serve_command() {
  return {
      .name = "serve",
      .synopsis = "--listen HOST:PORT [--setting value ...]",
      .summary = "hold a part of a model for peers elsewhere: experts that learn, or blocks of a frozen model",
      .common = {{"What", {"run.preset", "model.init", "servers.part", "servers.parts", "servers.blocks", "servers.at"}},
                 {"Of experts",
                  {"run.name", "run.seed", "model.layers", "model.width", "experts.sides", "experts.learning_rate"}},
                 {"This machine", {"net.listen", "net.announce", "net.threads", "run.directory"}}},
      .examples = {{"causeway serve --preset petals_lora --init gpt2/ --listen 0.0.0.0:29600",
                    "all blocks of a model; it prints the command that tunes it"},
                   {"causeway serve --preset learning_at_home --listen 0.0.0.0:29600 --servers.part 0 --servers.parts 2",
                    "half of the experts of the run with these settings"}},
      .more = "docs/policies/expert_layer.md, docs/policies/tuned_model.md"};
}

command simulate_command() {
  return {.name = "simulate",
          .synopsis = "[@run.toml] [--setting value ...]",
          .summary = "train on a simulated network, with faults, from a seed",
          .common = {{"Run", {"data.path", "run.seed", "net.peers", "train.steps", "comm.policy", "fault.policy"}},
                     {"Network and faults",
                      {"sim.faults", "sim.links", "sim.compute", "sim.flops", "sim.step_seconds", "sim.mbit_per_s",
                       "sim.latency_ms", "sim.seeds", "sim.history"}}},
          .examples = {{"causeway simulate --data book.txt --peers 64 --fault quorum --faults harsh --seed 7",
                        "64 peers on one machine, some of which die"}},
          .more = "docs/how_to/simulate.md"};
}

command generate_command() {
  return {.name = "generate",
          .synopsis = "[@run.toml] [--prompt TEXT]",
          .summary = "go on from a prompt with a trained model",
          .common = {the_run, sampling},
          .examples = {{"causeway generate --name causeway --prompt \"In the beginning\" --tokens 100", ""}},
          .more = {}};
}

command export_command() {
  return {.name = "export",
          .synopsis = "DIR | FILE.gguf [--name NAME]",
          .summary = "write a trained model as Hugging Face's transformers or llama.cpp reads it",
          .common = {{"Run", {"run.name", "run.directory", "export.format", "export.type"}}},
          .examples = {{"causeway export out/ --name causeway --dtype bf16", "a folder for transformers"},
                       {"causeway export model.gguf --name causeway --dtype q8_0", "a file for llama.cpp"}},
          .more = "docs/how_to/models_in_and_out.md"};
}

command watch_command() {
  return {.name = "watch",
          .synopsis = "[NAME]",
          .summary = "show a run on this machine in the terminal while it trains",
          .common = {{"Run", {"run.name", "run.directory"}}},
          .examples = {{"causeway watch causeway", ""}},
          .more = "docs/how_to/watch_a_run.md"};
}

command report_command() {
  return {.name = "report",
          .synopsis = "[NAME]",
          .summary = "write report.html of a run, which is the page that --page serves",
          .common = {{"Run", {"run.name", "run.directory"}}},
          .examples = {{"causeway report causeway", ""}},
          .more = "docs/how_to/watch_a_run.md"};
}

command tokenize_command() {
  return {
      .name = "tokenize",
      .synopsis = "IN OUT [--setting value ...]",
      .summary = "cut text into tokens once, into shards for data.path",
      .common = {{"Tokens",
                  {"data.tokenizer", "data.vocabulary", "data.field", "data.special", "data.shard_tokens", "net.threads"}}},
      .examples = {{"causeway tokenize books/ shards/ --tokenizer gpt2/", "GPT-2's tokens, in llm.c's format"}},
      .more = "docs/how_to/data.md"};
}

std::vector<command> make_commands() {
  return {
      train_command(),
      join_command(),
      serve_command(),
      generate_command(),
      export_command(),
      tokenize_command(),
      watch_command(),
      report_command(),
      simulate_command(),
      {.name = "plan",
       .synopsis = "--links FILE --devices FILE [--option value ...]",
       .summary = "which device should hold which stage of a pipeline, and why",
       .common = {},
       .examples = {{"causeway plan --links links.csv --devices devices.csv --model gpt2-xl", ""}},
       .more = "docs/reference/planners.md says what goes into the files.",
       .options = plan_options},
      {.name = "replay",
       .synopsis = "--trace FILE [--option value ...]",
       .summary = "what is trained while instances come and go, policy by policy",
       .common = {},
       .examples = {{"causeway replay --trace bench/traces/hourly10.csv", ""}},
       .more = "docs/reference/traces.md says what a trace is.",
       .options = replay_options},
      {.name = "schedule",
       .synopsis = "[--option value ...]",
       .summary = "draw what each rank of a pipeline does in one step, and when",
       .common = {},
       .examples = {{"causeway schedule --schedule zero_bubble --stages 4 --micro-batches 8", ""}},
       .more = "Without --room varuna stores 2 x stages inputs, greedy has room for stages x chunks sets, and\n"
               "an opportunistic rank for what its order needs.\n"
               "docs/reference/schedules.md says what the schedules are.",
       .options = schedule_options},
      {.name = "check-journal",
       .synopsis = "FOLDER ...",
       .summary = "check what the peers of a run with --journal wrote down",
       .common = {},
       .examples = {{"causeway check-journal runs/causeway", ""}},
       .more = {}},
      {.name = "config",
       .synopsis = "[@run.toml] [--setting value ...] [reference | completion | manual]",
       .summary = "show every setting and where its value comes from; or print a page of all, or what shells complete",
       .common = {},
       .examples = {{"causeway config @run.toml --layers 6", ""},
                    {"causeway config completion > ~/.local/share/bash-completion/completions/causeway",
                     "lets bash complete commands and settings"}},
       .more = {}},
  };
}

}  // namespace

const std::vector<command>& all_commands() {
  static const std::vector<command> all = make_commands();
  return all;
}

const command* find_command(std::string_view name) {
  const auto& all = all_commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const command& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace app
