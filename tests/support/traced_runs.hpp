// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TRACED_RUNS_HPP
#define CAUSEWAY_TESTS_SUPPORT_TRACED_RUNS_HPP

// Replays tests/golden/traces/*.golden: what a few peers hold after each step of a tiny run, computed by a reference
// (tests/golden/traces/make_traces.py) that was written from a paper's equations and its authors' code. The trace has the
// model's tensors, of very different scales, and what each peer's batch pulls it toward in each step; who is how quick is
// the test's, and makes the order of arrivals that the trace was made for. Peers run on the simulator, so that the order is
// always the same.

#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/quadratic.hpp"

namespace support {

using namespace std::chrono_literals;

struct traced_tensor {
  std::string name;
  causeway::parameter_kind kind = causeway::parameter_kind::vector;
  std::int64_t rows = 1, columns = 1;
  int block = -1;
  float curvature = 1;  ///< gradient = curvature · (value − centre)
};

/// Lines `tensor NAME KIND ROWS COLUMNS BLOCK CURVATURE`, and lines `NAME... : NUMBER...`; `#` begins a comment.
class trace {
 public:
  explicit trace(const std::string& name) {
    const auto tests = std::filesystem::path{__FILE__}.parent_path().parent_path();
    std::ifstream in{tests / "golden" / "traces" / (name + ".golden")};
    if (!in) throw std::runtime_error{"no trace " + name};
    for (std::string line; std::getline(in, line);) read(line);
  }

  [[nodiscard]] const std::vector<traced_tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::vector<float>& numbers(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw std::runtime_error{"the trace has no " + name};
    return found->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return numbers_.count(name) > 0; }
  [[nodiscard]] std::uint32_t peers() const { return static_cast<std::uint32_t>(numbers("peers")[0]); }
  [[nodiscard]] float learning_rate() const { return numbers("learning_rate")[0]; }
  /// Of one peer; peers may take different numbers of steps.
  [[nodiscard]] std::uint64_t steps(std::uint32_t peer) const { return static_cast<std::uint64_t>(numbers("steps")[peer]); }

  static std::string key(const std::string& what, std::uint64_t peer, std::uint64_t step) {
    return what + " " + std::to_string(peer) + " " + std::to_string(step);
  }

 private:
  void read(const std::string& line) {
    std::istringstream words{line};
    std::string name, word;
    words >> name;
    if (name.empty() || name[0] == '#') return;
    if (name == "tensor") return read_tensor(words);
    while (words >> word && word != ":") name += " " + word;
    for (float x = 0; words >> x;) numbers_[name].push_back(x);
  }
  void read_tensor(std::istream& words) {
    traced_tensor t;
    std::string kind;
    words >> t.name >> kind >> t.rows >> t.columns >> t.block >> t.curvature;
    using causeway::parameter_kind;
    t.kind = kind == "embedding" ? parameter_kind::embedding
             : kind == "matrix"  ? parameter_kind::matrix
                                 : parameter_kind::vector;
    tensors_.push_back(t);
  }

  std::vector<traced_tensor> tensors_;
  std::map<std::string, std::vector<float>> numbers_;
};

/// Every sequence of its batches is two tokens: who trains, and in which step.
class traced_model : public test_model {
 public:
  using self = traced_model;

  explicit traced_model(const trace& t)
      : test_model{start(t),
                   [&t](causeway::parameter_store& store, tokens inputs, float scale, std::uint64_t) {
                     pull(t, store, inputs, scale);
                     return 0.0;
                   },
                   [](causeway::parameter_store&, tokens) { return 0.0; }} {}

 private:
  static causeway::parameter_store start(const trace& t) {
    causeway::parameter_store store;
    for (const traced_tensor& x : t.tensors()) store.add(x.name, x.kind, x.rows, x.columns, x.block);
    store.allocate();
    auto from = t.numbers("start").begin();
    for (std::size_t i = 0; i < t.tensors().size(); ++i) {
      const auto size = store.segments()[i].size();
      std::copy(from, from + size, store.value(i));
      from += size;
    }
    return store;
  }

  static void pull(const trace& t, causeway::parameter_store& store, tokens inputs, float scale) {
    const float share = scale * static_cast<float>(inputs.size());  // of the batch
    const auto peer = static_cast<std::uint64_t>(inputs[0]), step = static_cast<std::uint64_t>(inputs[1]);
    auto centre = t.numbers(trace::key("centre", peer, step)).begin();
    for (std::size_t k = 0; k < t.tensors().size(); ++k) {
      const float curvature = t.tensors()[k].curvature;
      for (std::int64_t i = 0; i < store.segments()[k].size(); ++i) {
        store.gradient(k)[i] += share * curvature * (store.value(k)[i] - *centre++);
      }
    }
  }
};

struct traced_timing {
  std::vector<causeway::duration> steps{};  ///< of each peer, with one sequence; beyond the list 20 ms
  bool by_sequence = false;                 ///< a batch takes as many times longer as it has sequences
  causeway::duration latency = 1ms;
  double bytes_per_s = causeway::sim::unlimited;  ///< of a line
  std::vector<std::uint32_t> regions{};           ///< of each peer; none: all in one
  causeway::duration far = 400ms;                 ///< between two regions
  bool reversed = false;                          ///< the run's last peer is the trace's first
};

/// |a − b| over the largest |b| of the tensor, the largest of all tensors. `b` has no padding.
inline double largest_difference(const causeway::parameter_store& layout, const trace& t, std::span<const float> a,
                                 const std::vector<float>& b) {
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t k = 0; k < t.tensors().size(); ++k) {
    const auto& s = layout.segments()[k];
    double difference = 0, scale = 0;
    for (std::int64_t i = 0; i < s.size(); ++i, ++at) {
      const double want = double{b.at(at)};
      const double d = std::abs(double{a[static_cast<std::size_t>(s.offset + i)]} - want);
      difference = d <= difference ? difference : d;  // a NaN stays
      scale = std::max(scale, std::abs(want));
    }
    worst = difference / scale <= worst ? worst : difference / scale;
  }
  return worst;
}

/// Whether all values between tensors are zero.
inline bool padding_is_zero(const causeway::parameter_store& layout, std::span<const float> values) {
  std::size_t at = 0;
  const auto all_zero = [&](std::size_t end) {
    return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(end),
                       [](float x) { return x == 0; });
  };
  for (const auto& s : layout.segments()) {
    const auto first = static_cast<std::size_t>(s.offset);
    if (!all_zero(first)) return false;
    at = first + static_cast<std::size_t>(s.size());
  }
  return all_zero(values.size());
}

/// Runs all peers, and compares after each step what the trace has of it: `live P S`, the peer's own parameters, and
/// `shared P S`, what its policy calls the shared ones. Gives the largest difference. `prepare(trainer, peer, step)` is
/// called before each step, and gives the number of sequences in the batch. `final P 0`: the peer's parameters when all
/// have ended.
template <class Inner, class MakePolicy, class Prepare>
double replay(const trace& t, MakePolicy make, const traced_timing& timing, Prepare prepare) {
  double worst = 0;
  std::uint64_t compared = 0;
  causeway::sim::world_options options;
  options.link.latency = timing.latency;
  options.link.bytes_per_s = timing.bytes_per_s;
  causeway::sim::world world{options};
  for (const std::uint32_t a : timing.regions) {
    for (const std::uint32_t b : timing.regions) {
      if (a != b) world.set_region_link(a, b, {.latency = timing.far});
    }
  }
  std::vector<causeway::sim::host_index> hosts;
  for (std::uint32_t p = 0; p < t.peers(); ++p) {
    hosts.push_back(world.add_host({.region = p < timing.regions.size() ? timing.regions[p] : 0}));
  }
  const auto compare = [&](auto& trainer, const std::string& what, std::uint32_t peer, std::uint64_t step,
                           std::span<const float> values) {
    const std::string key = trace::key(what, peer, step);
    if (!t.has(key)) return;
    const double difference = largest_difference(trainer.model().parameters(), t, values, t.numbers(key));
    INFO(key);
    CHECK(difference < 1e-5);
    worst = difference <= worst ? worst : difference;
    ++compared;
  };
  for (const auto host : hosts) {
    world.boot(host, [&, host](causeway::sim::process& process) {
      const auto number = static_cast<std::uint32_t>(host);
      const std::uint32_t peer = timing.reversed ? t.peers() - 1 - number : number;
      const auto must = [](const auto& outcome) {
        if (!outcome) throw std::runtime_error{outcome.error().text()};
      };
      auto transport = process.make_transport(hosts);
      must(transport);
      process.sleep_till({1s});
      causeway::environment env;
      env.transport = causeway::net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      causeway::trainer_options o;
      o.learning_rate = causeway::optim::warmup_cosine{t.learning_rate(), 0, 0, 1.0F};  // constant
      o.clip_norm = 0;
      auto trainer = causeway::make_trainer(test_model{traced_model{t}}, std::move(env), o, make(), Inner{});
      must(trainer.start());
      if (!timing.by_sequence) process.sleep_till({3s});  // all begin at once; to who measures it, it looks like work
      for (std::uint64_t step = 0; step < t.steps(peer); ++step) {
        const std::int64_t sequences = prepare(trainer, peer, step);
        const causeway::duration step_time = peer < timing.steps.size() ? timing.steps[peer] : 20ms;
        process.compute(timing.by_sequence ? step_time * sequences : step_time);
        std::vector<std::int32_t> who;
        for (std::int64_t i = 0; i < sequences; ++i) {
          who.insert(who.end(), {static_cast<std::int32_t>(peer), static_cast<std::int32_t>(step)});
        }
        must(trainer.step({who, who, sequences}));
        compare(trainer, "live", peer, step + 1, trainer.model().parameters().values());
        CHECK(padding_is_zero(trainer.model().parameters(), trainer.model().parameters().values()));
        if constexpr (requires { trainer.comm().shared_parameters(); }) {
          compare(trainer, "shared", peer, step + 1, trainer.comm().shared_parameters());
        }
      }
      must(trainer.finish());
      compare(trainer, "final", peer, 0, trainer.model().parameters().values());
    });
  }
  if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
  CHECK(compared > 0);
  return worst;
}

template <class Inner, class MakePolicy>
double replay(const trace& t, MakePolicy make, const traced_timing& timing = {}) {
  return replay<Inner>(t, make, timing, [](auto&, std::uint32_t, std::uint64_t) { return std::int64_t{1}; });
}

/// The same for what does not depend on how peers are numbered: also with the numbers turned round.
template <class Inner, class MakePolicy, class Prepare>
double replay_in_any_order(const trace& t, MakePolicy make, traced_timing timing, Prepare prepare) {
  const double as_numbered = replay<Inner>(t, make, timing, prepare);
  timing.reversed = true;
  std::reverse(timing.regions.begin(), timing.regions.end());  // a peer stays where it is
  return std::max(as_numbered, replay<Inner>(t, make, timing, prepare));
}
template <class Inner, class MakePolicy>
double replay_in_any_order(const trace& t, MakePolicy make, const traced_timing& timing = {}) {
  return replay_in_any_order<Inner>(t, make, timing, [](auto&, std::uint32_t, std::uint64_t) { return std::int64_t{1}; });
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TRACED_RUNS_HPP
