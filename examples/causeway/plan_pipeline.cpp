// SPDX-License-Identifier: Apache-2.0
#include "plan_pipeline.hpp"

#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/pipeline_plan.hpp>
#include <causeway/plan/square_cube.hpp>
#include <causeway/plan/transformer_cost.hpp>
#include <causeway/sim/link_table.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "device_list.hpp"
#include "plan_batches.hpp"
#include "plan_clusters.hpp"
#include "plan_skips.hpp"

namespace app {
namespace {

namespace plan = causeway::plan;
using causeway::errc;
using causeway::fail;

struct request {
  std::string links, devices, model = "gpt2";
  std::uint64_t layers = 0, width = 0, vocabulary = 0, context = 0;
  std::uint64_t global_batch = 256, micro_batch = 1, stages = 0, replicas = 0, seed = 1, evaluations = 200000, clusters = 0,
                skip = 0, skip_groups = 3;
  double gradient_bytes = 4, state_bytes = 16;
  bool no_refine = false;
  bool batches = false;
};

std::vector<setting> flags_of(request& r) {
  return {
      make_setting("links", r.links, "link table: CSV from,to,rtt_ms,mbit_s"),
      make_setting("devices", r.devices, "CSV name,region,tflop_s,memory_gb[,count]"),
      make_setting("model", r.model, "gpt2, gpt2-xl, gpt3-xl, llama-7b, ...; an unknown one lists all"),
      make_setting("layers", r.layers, "of the model; 0: as the preset"),
      make_setting("width", r.width, "of the model; 0: as the preset"),
      make_setting("vocabulary", r.vocabulary, "of the model; 0: as the preset"),
      make_setting("context", r.context, "tokens in a sequence; 0: as the preset"),
      make_setting("global-batch", r.global_batch, "sequences in a step"),
      make_setting("micro-batch", r.micro_batch, "sequences in a micro-batch"),
      make_setting("stages", r.stages, "of a replica; 0: whatever is best"),
      make_setting("replicas", r.replicas, "0: whatever is best"),
      make_setting("gradient-bytes", r.gradient_bytes, "per parameter, when replicas average"),
      make_setting("state-bytes", r.state_bytes, "per parameter, in memory"),
      make_setting("seed", r.seed, "of the search"),
      make_setting("evaluations", r.evaluations, "of placements, at most"),
      make_setting("clusters", r.clusters,
                   "of devices that hold the model together, in place of stages and replicas: ravnest's"),
      make_setting("batches", r.batches,
                   "of devices that each hold the model, and the share of values that their lines carry: stella_train's"),
      make_setting("skip", r.skip,
                   "middle stages that every micro-batch leaves out, on paths that are planned: skippipe's"),
      make_setting("skip-groups", r.skip_groups,
                   "with --skip: groups of micro-batches that begin at a peer, and that a peer holds"),
      make_setting("no-refine", r.no_refine, "leave DTFM's placement as it is")};
}

causeway::result<std::string> read_file(const std::string& path, const std::string& option) {
  if (path.empty()) return fail(errc::invalid_argument, option, "names no file; `causeway plan --help` says what goes in");
  std::ifstream file{path};
  if (!file) return fail(errc::not_found, path, "cannot be read; give a file with " + option);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

causeway::result<plan::transformer_shape> shape_of(const request& r) {
  const plan::transformer_shape* preset = plan::find_transformer(r.model);
  if (preset == nullptr) {
    std::string names;
    for (const auto& t : plan::transformer_presets) names += (names.empty() ? "" : ", ") + std::string{t.name};
    return fail(
        errc::invalid_argument, "--model",
        "'" + r.model + "' is none of " + names + "; another one: the nearest, with --layers, --width and the like");
  }
  plan::transformer_shape shape = *preset;
  for (const auto& [given, most] : {std::pair{r.layers, 10000ULL}, std::pair{r.width, 1000000ULL},
                                    std::pair{r.vocabulary, 100000000ULL}, std::pair{r.context, 100000000ULL}}) {
    if (given > most) return fail(errc::invalid_argument, "model", std::to_string(given) + " is beyond all measure");
  }
  if (r.layers != 0) shape.layers = r.layers;
  if (r.width != 0) {  // other widths in proportion
    shape.hidden = shape.hidden * r.width / shape.width;
    shape.kv_width = shape.kv_width * r.width / shape.width;
    shape.width = r.width;
  }
  if (r.vocabulary != 0) shape.vocabulary = r.vocabulary;
  if (r.context != 0) shape.context = r.context;
  return shape;
}

causeway::result<plan::pipeline_plan_options> options_of(const request& r) {
  const auto limit = [](bool good, const char* name, const char* message) -> causeway::result<void> {
    if (good) return {};
    return fail(errc::invalid_argument, name, message);
  };
  CAUSEWAY_TRY(limit(r.global_batch >= 1 && r.global_batch <= 10000000, "--global-batch", "must be from 1 to 10,000,000"));
  CAUSEWAY_TRY(
      limit(r.micro_batch >= 1 && r.micro_batch <= r.global_batch, "--micro-batch", "must be from 1 to --global-batch"));
  CAUSEWAY_TRY(limit(r.gradient_bytes > 0 && r.gradient_bytes <= 64, "--gradient-bytes", "must be above 0, at most 64"));
  CAUSEWAY_TRY(limit(r.state_bytes > 0 && r.state_bytes <= 64, "--state-bytes", "must be above 0, at most 64"));
  CAUSEWAY_TRY(limit(r.stages <= 10000 && r.replicas <= 10000, "--stages", "and --replicas must be at most 10,000"));
  CAUSEWAY_TRY(limit(r.skip_groups >= 1 && r.skip_groups <= 16, "--skip-groups", "must be from 1 to 16"));
  plan::pipeline_plan_options o;
  o.global_batch = r.global_batch;
  o.micro_batch = r.micro_batch;
  o.stages = r.stages;
  o.replicas = r.replicas;
  o.bytes = {r.state_bytes, r.gradient_bytes, 2};
  o.search.seed = r.seed;
  o.search.evaluations = r.evaluations;
  o.refine = !r.no_refine;
  return o;
}

void print_placement(const plan::pipeline_plan& p, const device_list& all) {
  std::printf("\n%-6s %-9s devices, replica by replica\n", "stage", "blocks");
  for (std::size_t s = 0; s < p.stages(); ++s) {
    const std::string blocks = std::to_string(p.split.first_block[s]) + "-" + std::to_string(p.split.end(s) - 1);
    std::printf("%-6zu %-9s", s, blocks.c_str());
    for (const std::size_t d : p.where.group(s)) std::printf(" %s@%s", all.names[d].c_str(), all.regions[d].c_str());
    std::printf("\n");
  }
  std::vector<char> used(all.names.size());
  for (const std::size_t d : p.where.devices) used[d] = 1;
  if (const auto left = std::count(used.begin(), used.end(), 0); left > 0) {
    std::printf("not used:");
    for (std::size_t d = 0; d < used.size(); ++d) {
      if (used[d] == 0) std::printf(" %s@%s", all.names[d].c_str(), all.regions[d].c_str());
    }
    std::printf("\n");
  }
}

void print_step(const plan::pipeline_plan& p) {
  const plan::step_estimate& e = p.step;
  const auto part = [&](const char* what, double seconds) {
    std::printf("  %-34s %9.3f s %5.1f %%\n", what, seconds, 100 * seconds / e.total());
  };
  std::printf("\npredicted step %.3f s, %zu micro-batches for each replica\n", e.total(), p.work.micro_batches);
  part("computing", e.compute);
  part("bubble: waiting for other stages", e.bubble);
  part("exposed: activations", e.activations);
  part("exposed: averaging gradients", e.averaging);
  std::printf("cost on the links in DTFM's model %.3f s: averaging %.3f + 2 x pipeline %.3f\n", p.dtfm.total(),
              p.dtfm.data_parallel, p.dtfm.pipeline);
}

struct hop_at {
  std::size_t from = 0, to = 0;
  double seconds = 0;  // that a micro-batch occupies the link
};

hop_at slowest_hop(const plan::pipeline_plan& p, const plan::link_matrix& links) {
  hop_at slowest;
  const std::size_t r = p.step.replica;
  for (std::size_t s = 0; s + 1 < p.stages(); ++s) {
    const std::size_t a = p.where.device(s, r), b = p.where.device(s + 1, r);
    const double seconds = 8 * p.work.message_bytes / links(a, b).bandwidth;
    if (seconds > slowest.seconds) slowest = {a, b, seconds};
  }
  return slowest;
}

void print_bound(const plan::pipeline_plan& p, const plan::link_matrix& links, const device_list& all) {
  const plan::step_estimate& e = p.step;
  const auto name = [&](std::size_t d) { return all.names[d] + "@" + all.regions[d]; };
  const double largest = std::max({e.compute, e.bubble, e.activations, e.averaging});
  if (largest == e.averaging) {
    std::printf(
        "bound by averaging the gradients of stage %zu among %zu replicas: fewer replicas, smaller gradients "
        "(--gradient-bytes) or a policy that averages less often help\n",
        e.averaging_stage, p.where.replicas);
  } else if (largest == e.activations) {
    const hop_at h = slowest_hop(p, links);
    std::printf("bound by activations: replica %zu has its slowest link from %s to %s, %.3f s for each micro-batch\n",
                e.replica, name(h.from).c_str(), name(h.to).c_str(), h.seconds);
  } else if (largest == e.bubble) {
    std::printf("bound by the bubble: %zu stages and only %zu micro-batches; smaller micro-batches or fewer stages help\n",
                p.stages(), p.work.micro_batches);
  } else {
    std::printf("bound by computing: faster or more devices help, faster links do not\n");
  }
}

void print_square_cube(const plan::pipeline_plan& p, const plan::link_matrix& links, const device_list& all) {
  if (p.stages() == 1) {
    std::printf("square-cube law: a single stage sends no activations\n");
    return;
  }
  plan::square_cube worst;
  double ratio = -1;
  const std::size_t under_way = std::min(p.stages(), p.work.micro_batches);
  for (std::size_t r = 0; r < p.where.replicas; ++r) {
    for (std::size_t s = 0; s + 1 < p.stages(); ++s) {
      const std::size_t d = p.where.device(s, r);
      const double compute = (p.work.forward[s] + p.work.backward[s]) / all.devices[d].speed;
      const auto v = plan::check_square_cube(compute, p.work.message_bytes, links(d, p.where.device(s + 1, r)), under_way);
      if (ratio < 0 || v.ratio() < ratio) worst = v, ratio = v.ratio();
    }
  }
  std::printf(
      "square-cube law: %s. On the worst hop a stage computes %.3f s for each micro-batch and sends %.3f s (%.3f of it "
      "delay, shared by %zu under way): ratio %.2f",
      worst.viable() ? "a pipeline is viable here" : "this pipeline cannot hide its messages", worst.compute,
      worst.transfer + worst.latency, worst.latency, under_way, ratio);
  if (!worst.viable()) std::printf("; a model %.1f times as wide would", 1 / ratio);
  std::printf("\n");
}

void print_blind(const plan::pipeline_plan& p, const plan::blind_steps& blind) {
  const double ours = p.step.total();
  std::printf("\nblind to the links, with the same stages and replicas:\n");
  const auto line = [&](const char* what, double seconds) {
    if (seconds > 0) std::printf("  %-34s %9.3f s, %.2f times the plan\n", what, seconds, seconds / ours);
    if (seconds <= 0) std::printf("  %-34s does not fit the devices' memory\n", what);
  };
  line("at random, mean of 200", blind.mean);
  line("at random, median", blind.median);
  line("as listed, stage by stage", blind.by_stage);
  line("as listed, round robin", blind.by_replica);
  std::printf("  %-34s %9.3f s, %.2f times the plan's\n", "DTFM's cost at random, mean", blind.dtfm,
              blind.dtfm / p.dtfm.total());
}

}  // namespace

std::vector<setting> plan_options() {
  static request usual;  // the table refers to it
  return flags_of(usual);
}

causeway::result<int> plan_pipeline(const command_line& line) {
  request r;
  CAUSEWAY_TRY(take_options(line, flags_of(r)));
  CAUSEWAY_ASSIGN(const plan::transformer_shape shape, shape_of(r));
  CAUSEWAY_ASSIGN(const plan::pipeline_plan_options options, options_of(r));
  CAUSEWAY_ASSIGN(const std::string links_text, read_file(r.links, "--links"));
  CAUSEWAY_ASSIGN(const std::string devices_text, read_file(r.devices, "--devices"));
  CAUSEWAY_ASSIGN(const causeway::sim::link_table table, causeway::sim::link_table::parse(links_text, r.links));
  CAUSEWAY_ASSIGN(const device_list all, parse_devices(devices_text, r.devices));
  CAUSEWAY_ASSIGN(const plan::link_matrix links, links_between(all, table));
  if (r.clusters > 0) {
    CAUSEWAY_TRY(print_clusters(shape, links, all,
                                {.clusters = r.clusters,
                                 .micro_batch = static_cast<double>(r.micro_batch),
                                 .bytes = options.bytes,
                                 .search = {.seed = r.seed}}));
    return 0;
  }
  if (r.batches) {
    CAUSEWAY_TRY(print_batches(shape, links, all, options.bytes));
    return 0;
  }
  CAUSEWAY_ASSIGN(const plan::pipeline_plan p, plan::plan_pipeline(shape, links, all.devices, options));
  std::printf("%s, %.2f G parameters, %zu blocks, on %zu devices: %zu stages x %zu replicas (seed %llu)\n", r.model.c_str(),
              plan::total_parameters(shape) / 1e9, shape.layers, all.names.size(), p.stages(), p.where.replicas,
              static_cast<unsigned long long>(r.seed));
  print_placement(p, all);
  print_step(p);
  print_bound(p, links, all);
  print_square_cube(p, links, all);
  if (r.skip > 0) {
    CAUSEWAY_TRY(print_skips(p, links, all, {.skip = r.skip, .groups = r.skip_groups, .search = options.search}));
  }
  print_blind(p, plan::estimate_blind(shape, links, all.devices, options, p.where.replicas, p.stages()));
  return 0;
}

}  // namespace app
