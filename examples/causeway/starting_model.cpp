// SPDX-License-Identifier: Apache-2.0
#include "starting_model.hpp"

#include <causeway/formats/huggingface.hpp>
#include <causeway/formats/tokenizer_folder.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <variant>

#include "chosen_model.hpp"
#include "option.hpp"

namespace app {
namespace {

namespace formats = causeway::formats;
using causeway::errc;
using causeway::fail;

std::string hash_of(const formats::weight_files& files) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), files.content_hash(), 16).ptr;
  return {digits.data(), end};
}

void take(settings& s, const causeway::nn::gpt_options& o) {
  auto& m = s.model;
  m.family = "gpt", m.layers = o.layers, m.heads = o.heads, m.kv_heads = 0, m.width = o.width;
  m.hidden = o.mlp_ratio * o.width, m.vocabulary = o.vocabulary, m.epsilon = o.epsilon;
}

void take(settings& s, const causeway::nn::llama_options& o) {
  auto& m = s.model;
  m.family = "llama", m.layers = o.layers, m.heads = o.heads, m.kv_heads = o.kv_heads, m.width = o.width;
  m.hidden = o.hidden, m.vocabulary = o.vocabulary, m.epsilon = o.epsilon, m.theta = o.theta;
  const auto& r = o.scaling;
  m.rope_scaling.clear();
  if (r.factor != 1.0F) m.rope_scaling = {r.factor, r.low, r.high, static_cast<float>(r.original_context)};
}

// The shape of the stored model; the context at most as long.
causeway::result<void> take_shape(settings& s, const origins& from) {
  CAUSEWAY_ASSIGN(const auto options, formats::read_config_of(s.model.init));
  const auto [context, tied] = std::visit([](const auto& o) { return std::pair{o.context, o.tie}; }, options);
  std::visit([&](const auto& o) { take(s, o); }, options);
  const std::int64_t most = context - (tunes_served(s) ? s.tune.prompts : 0);  // prompts take places of it
  if (!from.contains("model.context")) s.model.context = std::max<std::int64_t>(most, 1);
  if (s.model.context > most) {
    const std::string prompts = most < context ? ", of which tune.prompts take " + std::to_string(s.tune.prompts) : "";
    return fail(errc::invalid_argument, "model.context",
                "is " + std::to_string(s.model.context) + "; the model in " + s.model.init + " has " +
                    std::to_string(context) + prompts + ", use " + std::to_string(most) + " or less");
  }
  s.model.tie = tied && !shares_no_table(s) ? "true" : "false";  // of those, stages share no table
  return {};
}

causeway::result<void> take_tokenizer(settings& s, const origins& from) {
  if (from.contains("data.tokenizer")) return {};
  const std::string otherwise =
      "; to train on other tokens than the model knows, say so with --data.tokenizer bytes or bpe";
  auto stored = tokenizer_of_model(s);
  if (!stored) {
    stored.error().message += otherwise;
    return stored.error();
  }
  s.data.tokenizer = "model";
  return {};
}

}  // namespace

causeway::result<void> take_init(settings& s, const origins& from) {
  if (s.model.init.empty()) return {};
  settings given = s;
  CAUSEWAY_TRY(take_shape(s, from));
  take_policy_defaults(s, from);  // some follow the shape
  CAUSEWAY_TRY(take_tokenizer(s, from));
  CAUSEWAY_ASSIGN(const auto files, formats::weight_files::open(s.model.init));
  s.model.start = hash_of(files);
  const auto before = table(given);
  const auto now = table(s);
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto origin = from.find(now[i].name);
    if (origin == from.end() || now[i].get() == before[i].get()) continue;
    return fail(errc::invalid_argument, now[i].name,
                "is " + before[i].get() + " (" + origin->second + "), and " + now[i].get() + " in the model in " +
                    s.model.init + "; leave it out");
  }
  return {};
}

causeway::result<causeway::data::bpe_tokenizer> tokenizer_of_model(const settings& s) {
  if (s.model.init.empty()) {
    return fail(errc::not_found, "data.tokenizer",
                "is that of the model that the run starts from; give a copy of its folder with --model.init, or leave "
                "data.path out to get the tokens from another peer");
  }
  return formats::read_tokenizer_of(s.model.init);
}

causeway::result<void> check_start(const settings& s) {
  if (s.model.init.empty()) {
    return fail(errc::not_found, "model.init",
                "the run starts from a stored model, which every peer must have; bring its folder here and name it with "
                "--model.init DIR");
  }
  CAUSEWAY_ASSIGN(const auto files, formats::weight_files::open(s.model.init));
  if (hash_of(files) != s.model.start) {
    return fail(errc::wrong_model, s.model.init,
                "has other weights than the run started from (model.start " + s.model.start + ", here " + hash_of(files) +
                    "); give a copy of that folder");
  }
  return {};
}

causeway::result<void> start_from(chosen_model& model, const settings& s, bool state_comes) {
  if (s.model.start.empty() || (s.model.init.empty() && state_comes)) return {};
  CAUSEWAY_TRY(check_start(s));
  return model.load(s.model.init);
}

causeway::result<std::string> hash_of_weights(const std::string& folder) {
  CAUSEWAY_ASSIGN(const auto files, formats::weight_files::open(folder));
  return hash_of(files);
}

}  // namespace app
