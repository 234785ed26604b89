// SPDX-License-Identifier: Apache-2.0
#include "merge_adapters.hpp"

#include <causeway/formats/huggingface.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/train/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "starting_model.hpp"

namespace app {
namespace {

namespace io = causeway::io;
namespace nn = causeway::nn;
using causeway::errc;
using causeway::fail;
using causeway::parameter_store;
using causeway::result;
using nn::linear_map;

/// Where a map of a block lies: rows of a segment from `row` on.
struct map_place {
  std::string segment;
  std::int64_t row = 0;
};

map_place place_of(const nn::gpt_options& o, std::int64_t block, linear_map map) {
  const std::string h = "h." + std::to_string(block) + ".";
  switch (map) {
    case linear_map::query: return {h + "attn.c_attn.weight", 0};
    case linear_map::key: return {h + "attn.c_attn.weight", o.width};
    case linear_map::value: return {h + "attn.c_attn.weight", 2 * o.width};
    case linear_map::output: return {h + "attn.c_proj.weight", 0};
    case linear_map::down: return {h + "mlp.c_proj.weight", 0};
    case linear_map::gate:
    case linear_map::up: break;
  }
  return {h + "mlp.c_fc.weight", 0};
}

map_place place_of(const nn::llama_options& o, std::int64_t block, linear_map map) {
  const std::string h = "model.layers." + std::to_string(block) + ".";
  const std::int64_t values = o.kv_heads * (o.width / o.heads);
  switch (map) {
    case linear_map::query: return {h + "self_attn.qkv_proj.weight", 0};
    case linear_map::key: return {h + "self_attn.qkv_proj.weight", o.width};
    case linear_map::value: return {h + "self_attn.qkv_proj.weight", o.width + values};
    case linear_map::output: return {h + "self_attn.o_proj.weight", 0};
    case linear_map::gate: return {h + "mlp.gate_up_proj.weight", 0};
    case linear_map::up: return {h + "mlp.gate_up_proj.weight", o.hidden};
    case linear_map::down: break;
  }
  return {h + "mlp.down_proj.weight", 0};
}

std::size_t find(const parameter_store& store, std::string_view name) {
  const auto all = store.segments();
  const auto found = std::find_if(all.begin(), all.end(), [name](const auto& s) { return s.name == name; });
  return static_cast<std::size_t>(found - all.begin());
}

// W += factor · B·A on the rows that are the map's.
void add_product(parameter_store& to, const map_place& at, parameter_store& tuned, const std::string& adapter,
                 float factor) {
  const std::size_t a = find(tuned, adapter + ".lora_A"), b = find(tuned, adapter + ".lora_B");
  const std::int64_t rank = tuned.segments()[a].rows, inputs = tuned.segments()[a].columns;
  float* const w = to.value(find(to, at.segment)) + at.row * inputs;
  for (std::int64_t o = 0; o < tuned.segments()[b].rows; ++o) {
    for (std::int64_t r = 0; r < rank; ++r) {
      const float times = factor * tuned.value(b)[o * rank + r];
      for (std::int64_t i = 0; i < inputs; ++i) w[o * inputs + i] += times * tuned.value(a)[r * inputs + i];
    }
  }
}

template <class Family>
result<void> merge(const settings& s, const typename Family::options_type& o, const io::section_file& from,
                   parameter_store& into) {
  const nn::map_sizes maps = Family::maps(o);
  CAUSEWAY_ASSIGN(auto tuned,
                  causeway::parallel::tuned_parameters::create(tuning_of(s), {0, o.layers, o.width, maps}, o.context));
  CAUSEWAY_TRY(causeway::restore_parameters(tuned.store(), from, io::archiver{}));
  const float factor = s.tune.alpha / static_cast<float>(s.tune.rank);
  for (std::int64_t block = 0; block < o.layers; ++block) {
    for (std::size_t m = 0; m < nn::linear_maps; ++m) {
      if (!tuned.tuning().adapters.has(m)) continue;
      const std::string name = "block." + std::to_string(block) + "." + std::string{nn::linear_map_names[m]};
      add_product(into, place_of(o, block, static_cast<linear_map>(m)), tuned.store(), name, factor);
    }
  }
  into.touch();
  return {};
}

}  // namespace

causeway::parallel::tuning_options tuning_of(const settings& s) {
  causeway::parallel::tuning_options o;
  if (s.tune.prompts > 0) o.prompts = causeway::parallel::prompt_options{.rows = s.tune.prompts, .deep = s.tune.deep};
  if (s.tune.rank == 0) return o;
  const auto& maps = s.tune.maps;
  const auto has = [&maps](const char* map) { return std::find(maps.begin(), maps.end(), map) != maps.end(); };
  o.adapters = nn::adapter_options{.rank = s.tune.rank,
                                   .alpha = s.tune.alpha,
                                   .query = has("query"),
                                   .key = has("key"),
                                   .value = has("value"),
                                   .output = has("output"),
                                   .feed_forward = has("feed_forward")};
  return o;
}

result<chosen_model> merged_model(const settings& s, text_codec& codec, const io::section_file& from) {
  if (s.tune.prompts > 0) {
    return fail(errc::unsupported, run_folder(s),
                "has prompts, which are no part of a model; adapters alone can be put into its weights (petals_lora)");
  }
  CAUSEWAY_ASSIGN(chosen_model model, make_model(s, codec.vocabulary()));
  CAUSEWAY_TRY(start_from(model, s, false));
  const auto options = model.options();
  if (const auto* const gpt = std::get_if<nn::gpt_options>(&options)) {
    CAUSEWAY_TRY(merge<nn::gpt_family>(s, *gpt, from, model.parameters()));
  } else {
    CAUSEWAY_TRY(merge<nn::llama_family>(s, std::get<nn::llama_options>(options), from, model.parameters()));
  }
  return model;
}

}  // namespace app
