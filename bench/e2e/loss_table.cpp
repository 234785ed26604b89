// SPDX-License-Identifier: Apache-2.0
// Validation loss at equal tokens, bytes and waiting of every preset: trains a small GPT on the simulator
// (loss_table/run.hpp) and prints a table, beside gradients averaged in every step.
//
// usage: bench_e2e_loss_table RESULTS.jsonl [--text data/kjv.txt] [--links bench/sim/networks/world.csv] [--only NAME]...
//          [--peers 8,4] [--seeds 3] [--steps 300] [--rate 0.004] [--warm 8000]
//          [--local-steps 10] [--momentum 0.3] [--outer-rate 0.7] [--sequences 4] [--targets] [--print]
//
// Every run is added to RESULTS.jsonl, and those that are there are not run again. --only: rows whose name begins so.
// --outer-rate is DiLoCo's, --sequences are those of a peer in a step; use another file of results for each. --targets runs
// the rows of the targets too and judges them; exit status 1 when one is missed. --print runs nothing. Seeds 1, 3, ... run
// on 100 Mbit/s access lines, seeds 2, 4, ... on the regions of --links: what a peer computes does not depend on it, but in
// asynchronous rows. All begin with the same model, which one peer trained for --warm steps.
#include <causeway/comm/every_step.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "loss_table/results.hpp"

namespace {

using namespace losses;

struct options {
  std::string results;
  std::string text = "data/kjv.txt";
  std::string links = "bench/sim/networks/world.csv";
  std::vector<std::string> only;
  std::vector<std::uint32_t> peers{8, 4};
  std::uint64_t seeds = 3;
  std::uint64_t steps = 300;
  std::uint64_t warm = 8000;
  float rate = 0.004F;
  std::uint32_t local_steps = 10;
  float momentum = 0.3F;
  float outer_rate = 0.7F;
  std::int64_t sequences = losses::batch;
  bool targets = false;
  bool print = false;
};

[[noreturn]] void usage(const std::string& what) {
  std::fprintf(stderr, "loss_table: %s; the head of bench/e2e/loss_table.cpp says how to use it\n", what.c_str());
  std::exit(2);
}

std::vector<std::uint32_t> numbers(const std::string& list) {
  std::vector<std::uint32_t> all;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    all.push_back(static_cast<std::uint32_t>(std::atoi(list.substr(at, end - at).c_str())));
    at = end + 1;
  }
  return all;
}

void take(options& o, const std::string& key, const char* value) {
  if (key == "--text") {
    o.text = value;
  } else if (key == "--links") {
    o.links = value;
  } else if (key == "--only") {
    o.only.emplace_back(value);
  } else if (key == "--peers") {
    o.peers = numbers(value);
  } else if (key == "--seeds") {
    o.seeds = std::strtoull(value, nullptr, 10);
  } else if (key == "--steps") {
    o.steps = std::strtoull(value, nullptr, 10);
  } else if (key == "--warm") {
    o.warm = std::strtoull(value, nullptr, 10);
  } else if (key == "--local-steps") {
    o.local_steps = numbers(value).front();
  } else if (key == "--momentum") {
    o.momentum = std::strtof(value, nullptr);
  } else if (key == "--outer-rate") {
    o.outer_rate = std::strtof(value, nullptr);
  } else if (key == "--sequences") {
    o.sequences = numbers(value).front();
  } else if (key == "--rate") {
    o.rate = std::strtof(value, nullptr);
  } else {
    usage("no option " + key);
  }
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--targets") {
      o.targets = true;
    } else if (key == "--print") {
      o.print = true;
    } else if (key.starts_with("--")) {
      if (++i == argc) usage(key + " without its value");
      take(o, key, argv[i]);
    } else {
      o.results = key;
    }
  }
  if (o.results.empty()) usage("no file for the results");
  return o;
}

std::vector<row> all_rows() {
  std::vector<row> all;
  for (auto part : {local_update_rows(), overlapped_rows(), compressed_rows(), compressed_every_step_rows(), gossip_rows(),
                    asynchronous_rows(), target_rows()}) {
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  return all;
}

/// Trained by one peer with twice the batch, or read from where an earlier run left it.
std::vector<float> starting_point(const corpus& text, const options& o) {
  const std::string path = o.results + ".start" + std::to_string(o.warm);
  std::vector<float> values(small_gpt{}.parameters().values().size());
  const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  if (std::ifstream in{path, std::ios::binary}; in.read(reinterpret_cast<char*>(values.data()), bytes)) return values;
  const plan p{.peers = 1, .steps = o.warm, .seed = 1000, .rate = 0.008F, .text = &text};
  const auto twice = [](std::uint32_t, std::uint64_t) { return 2 * batch; };
  auto done = train(
      p, [] { return causeway::comm::every_step<>{}; }, [] { return causeway::optim::adamw{}; }, {.sequences = twice});
  std::fprintf(stderr, "start: %.4f after %llu steps of one peer\n", done.loss, static_cast<unsigned long long>(o.warm));
  std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(done.parameters.data()), bytes);
  return done.parameters;
}

bool wanted(const row& r, const options& o) {
  if (o.print || (!r.in_table && !o.targets && o.only.empty())) return false;
  if (o.only.empty()) return true;
  return std::any_of(o.only.begin(), o.only.end(), [&](const std::string& name) { return r.name.starts_with(name); });
}

void run_missing(const std::vector<row>& rows, results& all, const plan& p, const options& o) {
  for (const row& r : rows) {
    if (!wanted(r, o) || (!r.in_table && p.peers != 8) || all.find(r, p) != nullptr) continue;
    const outcome done = r.run(p);
    all.add({r.name, r.settings, p.peers, p.steps, p.seed, static_cast<double>(p.rate), p.local_steps,
             static_cast<double>(p.momentum), p.links != nullptr, done.loss, done.megabytes, done.waited});
    std::fprintf(stderr, "%s, %u peers, seed %llu: %.4f, %.2f MB, waited %.1f s\n", r.name.c_str(), p.peers,
                 static_cast<unsigned long long>(p.seed), done.loss, done.megabytes, done.waited);
  }
}

int run(const options& o) {
  auto text = checked(corpus::read(o.text));
  std::ifstream in{o.links};
  const auto world =
      checked(causeway::sim::link_table::parse(std::string{std::istreambuf_iterator<char>{in}, {}}, o.links));
  const std::vector<row> rows = all_rows();
  results all{o.results};
  if (o.warm > 0) text.start = starting_point(text, o);
  plan p{.steps = o.steps,
         .local_steps = o.local_steps,
         .momentum = o.momentum,
         .outer_rate = o.outer_rate,
         .rate = o.rate,
         .sequences = o.sequences,
         .text = &text};
  for (const std::uint32_t peers : o.peers) {
    p.peers = peers;
    for (p.seed = 1; p.seed <= o.seeds; ++p.seed) {
      p.links = p.seed % 2 == 0 ? &world : nullptr;
      run_missing(rows, all, p, o);
    }
  }
  small_gpt first = starting_model(text);
  const double start = checked(validation_loss(first, text));
  for (const std::uint32_t peers : o.peers) {
    p.peers = peers;
    print_table(rows, all, p, start);
  }
  return !o.targets || print_targets(rows, all, p) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "loss_table: %s\n", e.what());
    return 2;
  }
}
