// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <type_traits>
#include <utility>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

template <class T>
bool from_text(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return false;
    value = text == "true";
    return true;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    value.clear();
    std::istringstream pieces{text};
    for (std::string piece; std::getline(pieces, piece, ',');) value.push_back(piece);
    return true;
  } else {
    T parsed{};
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (code != std::errc{} || end != text.data() + text.size()) return false;
    value = parsed;
    return true;
  }
}

template <class T>
std::string to_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    std::string all;
    for (const auto& piece : value) all += (all.empty() ? "" : ",") + piece;
    return all;
  } else {
    char buffer[64];
    const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, value);
    return {buffer, end};
  }
}

template <class T>
setting make(std::string name, T& value, std::string help, bool local = false) {
  return {std::move(name), std::move(help), local, [&value] { return to_text(value); },
          [&value](const std::string& text) { return from_text(text, value); }};
}

constexpr bool local = true;

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
  if (const auto* v = node.as_floating_point()) return to_text(v->get());
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

// The variables of torchrun, Slurm, Open MPI and indexed Kubernetes jobs, for those who start peers that way.
causeway::result<void> apply_environment(std::vector<setting>& all, origins& from) {
  const auto alias = [&](const char* variable, const char* name) -> causeway::result<void> {
    const char* value = std::getenv(variable);
    if (value == nullptr || from.contains(name)) return {};
    return assign(all, name, value, variable, from);
  };
  for (const auto& s : all) {
    const std::string variable = environment_name(s.name);
    if (const char* value = std::getenv(variable.c_str())) CAUSEWAY_TRY(assign(all, s.name, value, variable, from));
  }
  for (const char* v : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX"}) {
    CAUSEWAY_TRY(alias(v, "net.index"));
  }
  for (const char* v : {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    CAUSEWAY_TRY(alias(v, "net.peers"));
  return {};
}

bool is_flag(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

}  // namespace

std::vector<setting> table(settings& s) {
  return {
      make("run.name", s.run.name, "name of the run; its files are in run.directory/run.name"),
      make("run.directory", s.run.directory, "folder that holds runs", local),
      make("run.seed", s.run.seed, "seed of everything random"),
      make("run.fresh", s.run.fresh, "start over even if checkpoints of this run exist (true|false)"),
      make("model.family", s.model.family, "gpt (GPT-2) or llama"),
      make("model.layers", s.model.layers, "transformer blocks"),
      make("model.heads", s.model.heads, "attention heads; must divide model.width"),
      make("model.kv_heads", s.model.kv_heads, "key and value heads of llama; 0 = model.heads"),
      make("model.width", s.model.width, "width of the residual stream"),
      make("model.context", s.model.context, "tokens per sequence"),
      make("model.dropout", s.model.dropout, "dropout rate of gpt, 0 to 1"),
      make("model.precision", s.model.precision, "f32 or bf16 (f32 master weights)"),
      make("model.recompute", s.model.recompute, "recompute each block in the backward pass to save memory (true|false)"),
      make("data.path", s.data.path, "a UTF-8 text file, or a folder of them", local),
      make("data.tokenizer", s.data.tokenizer, "bytes, or bpe (trained on the text)"),
      make("data.vocabulary", s.data.vocabulary, "size of the bpe vocabulary"),
      make("data.validation", s.data.validation, "share of the text kept for validation"),
      make("train.steps", s.train.steps, "inner steps of each peer"),
      make("train.batch", s.train.batch, "sequences per peer and inner step"),
      make("train.micro_batches", s.train.micro_batches, "pieces that a batch is cut into to save memory"),
      make("train.optimizer", s.train.optimizer, "inner optimizer: adamw or muon"),
      make("train.learning_rate", s.train.learning_rate, "peak learning rate of the inner optimizer"),
      make("train.warmup", s.train.warmup, "steps to the peak"),
      make("train.final_fraction", s.train.final_fraction, "learning rate at the end, as a fraction of the peak"),
      make("train.weight_decay", s.train.weight_decay, "of matrices and embeddings"),
      make("train.clip", s.train.clip, "largest norm of the gradient; 0 = no clipping"),
      make("train.evaluate_every", s.train.evaluate_every, "steps between validations (at the next committed round)"),
      make("train.evaluate_tokens", s.train.evaluate_tokens, "validation tokens, over all peers"),
      make("train.checkpoint_every", s.train.checkpoint_every, "steps between checkpoints (at the next committed round)"),
      make("comm.policy", s.comm.policy, "diloco, local_sgd or every_step"),
      make("comm.local_steps", s.comm.local_steps, "inner steps between exchanges (H)"),
      make("comm.outer_learning_rate", s.comm.outer_learning_rate, "of the outer optimizer"),
      make("comm.outer_momentum", s.comm.outer_momentum, "of the outer Nesterov optimizer"),
      make("comm.codec", s.comm.codec, "what travels: none (f32), fp16, bf16 or int8"),
      make("net.peers", s.net.peers, "peers in the run"),
      make("net.listen", s.net.listen, "HOST:PORT to wait for peers at; empty = start all peers on this machine", local),
      make("net.join", s.net.join, "HOST:PORT of the first peer", local),
      make("net.static_peers", s.net.static_peers, "HOST:PORT of all peers in order, instead of a rendezvous"),
      make("net.index", s.net.index, "this peer's wanted place; -1 = any", local),
      make("net.threads", s.net.threads, "compute threads of this peer; 0 = share the cores", local),
      make("net.streams", s.net.streams, "TCP streams per link; 0 = choose", local),
      make("net.patience", s.net.patience, "seconds to go on dialling while nobody answers", local),
      make("sample.prompt", s.sample.prompt, "text to go on from"),
      make("sample.tokens", s.sample.tokens, "tokens to generate"),
      make("sample.temperature", s.sample.temperature, "0 = always the likeliest"),
      make("sample.top_k", s.sample.top_k, "choose among the k likeliest; 0 = all"),
      make("quiet", s.quiet, "no progress line (true|false)", local),
  };
}

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
  std::vector<std::pair<std::string, std::string>> flags;
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
      std::string value;
      if (const auto equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      } else if (i + 1 < arguments.size() && !is_flag(arguments[i + 1])) {
        value = arguments[++i];
      } else {
        value = "true";
      }
      for (const auto& [short_name, full] :
           {std::pair{"peers", "net.peers"}, std::pair{"listen", "net.listen"}, std::pair{"steps", "train.steps"},
            std::pair{"seed", "run.seed"}, std::pair{"prompt", "sample.prompt"}, std::pair{"threads", "net.threads"}}) {
        if (name == short_name) name = full;
      }
      flags.emplace_back(name, value);
    } else if (line.command.empty()) {
      line.command = a;
    } else {
      line.positional.push_back(a);
    }
  }
  auto all = table(s);
  CAUSEWAY_TRY(apply_environment(all, from));
  for (const auto& [name, value] : flags) CAUSEWAY_TRY(assign(all, name, value, "--" + name, from));
  if (line.command.empty()) line.command = "help";
  return line;
}

causeway::result<void> validate(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  const auto one_of = [](const std::string& value, std::initializer_list<const char*> allowed) {
    for (const char* a : allowed) {
      if (value == a) return true;
    }
    return false;
  };
  if (!one_of(s.model.family, {"gpt", "llama"})) return bad("model.family", "'" + s.model.family + "'; use gpt or llama");
  if (!one_of(s.model.precision, {"f32", "bf16"})) return bad("model.precision", "use f32 or bf16");
  if (!one_of(s.data.tokenizer, {"bytes", "bpe"})) return bad("data.tokenizer", "use bytes or bpe");
  if (!one_of(s.train.optimizer, {"adamw", "muon"})) return bad("train.optimizer", "use adamw or muon");
  if (!one_of(s.comm.policy, {"diloco", "local_sgd", "every_step"})) {
    return bad("comm.policy", "'" + s.comm.policy + "'; use diloco, local_sgd or every_step");
  }
  if (!one_of(s.comm.codec, {"none", "fp16", "bf16", "int8"})) return bad("comm.codec", "use none, fp16, bf16 or int8");
  if (s.model.family == "llama" && s.model.dropout > 0) return bad("model.dropout", "the llama family has none; use 0");
  if (s.net.peers == 0) return bad("net.peers", "0 peers cannot train; use 1 or more");
  if (s.train.steps == 0) return bad("train.steps", "nothing to do; use 1 or more");
  if (s.train.batch < 1) return bad("train.batch", "use 1 or more sequences");
  if (s.train.micro_batches < 1 || s.train.batch % s.train.micro_batches != 0) {
    return bad("train.micro_batches", "must divide train.batch (" + std::to_string(s.train.batch) + ")");
  }
  if (s.comm.local_steps == 0) return bad("comm.local_steps", "use 1 or more");
  if (!(s.data.validation > 0 && s.data.validation < 1)) return bad("data.validation", "use a share between 0 and 1");
  if (s.run.name.empty() || s.run.name.find('/') != std::string::npos) {
    return bad("run.name", "use a plain name without slashes; run.directory says where it goes");
  }
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

std::string help_text() {
  settings defaults;
  std::string text =
      "causeway: train one transformer on many machines joined by slow links\n\n"
      "  causeway train [@run.toml] [--setting value ...]   train; with --peers N, start N peers on this machine\n"
      "  causeway train --listen HOST:PORT --peers N        wait for N-1 peers from other machines\n"
      "  causeway join HOST:PORT [--data.path TEXT]         join such a run\n"
      "  causeway generate [@run.toml] [--prompt TEXT]      go on from a prompt with a trained model\n"
      "  causeway config --effective [@run.toml] [...]      show every setting, and where its value comes from\n\n"
      "Settings, from a TOML file (@FILE), CAUSEWAY_SECTION_NAME variables, or flags; later ones win:\n";
  for (const auto& item : table(defaults)) {
    std::string flag = "  --" + item.name;
    flag.resize(std::max<std::size_t>(flag.size() + 2, 32), ' ');
    const std::string value = item.get();
    text += flag + item.help + (value.empty() ? "" : " [" + value + "]") + "\n";
  }
  text += "\nShort forms: --peers, --listen, --steps, --seed, --prompt, --threads.\n";
  return text;
}

}  // namespace app
