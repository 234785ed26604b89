// SPDX-License-Identifier: Apache-2.0

// One training step of GPT-2 (forward, backward, AdamW) on random tokens: tokens per second, milliseconds per phase, and
// the share of what a loop of multiply-adds of that type reaches on the same threads. The shapes are those of
// compare_torch.py. `cpu`: processor time of a step, of all threads, which neighbours on the machine change less than the
// time on the wall, and with one thread tokens by that time.
//   train_step [--config nano|tiny|small|gpt2] [--layers N] [--width N] [--heads N] [--context N] [--vocabulary N]
//   [--batch N] [--threads N] [--dtype f32|bf16] [--steps N] [--gemm packed|onednn] [--profile]
//   [--level portable|avx2|avx512]

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/adamw.hpp>

#if defined(CAUSEWAY_HAS_ONEDNN)
#include <causeway/kernels/onednn_gemm.hpp>
#endif

#include "support/fma_peak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace causeway;

struct config {
  const char* name;
  std::int64_t layers, width, heads, T, vocabulary, batch;
};
constexpr config configs[] = {{"nano", 2, 64, 4, 64, 128, 8},
                              {"tiny", 4, 256, 4, 256, 4096, 4},
                              {"small", 6, 384, 6, 256, 4096, 4},
                              {"gpt2", 12, 768, 12, 256, 50304, 1}};

struct options {
  config shape = configs[1];
  unsigned threads = 1;
  bool low = false;
  int steps = 20;
  std::string gemm = "packed";
  bool profile = false;
};

[[noreturn]] void usage(const char* what) {
  std::fprintf(stderr,
               "train_step: %s\nusage: train_step [--config nano|tiny|small|gpt2] [--layers N] [--width N] [--heads N] "
               "[--context N] [--vocabulary N] [--batch N] [--threads N] [--dtype f32|bf16] [--steps N] "
               "[--gemm packed|onednn] [--profile] [--level portable|avx2|avx512]\n",
               what);
  std::exit(2);
}

config find_config(const char* name) {
  for (const auto& c : configs) {
    if (std::strcmp(c.name, name) == 0) return c;
  }
  usage("no such config");
}

/// The part of a shape that an option sets; null if it sets none.
std::int64_t* size_of(config& c, std::string_view key) {
  if (key == "--layers") return &c.layers;
  if (key == "--width") return &c.width;
  if (key == "--heads") return &c.heads;
  if (key == "--context") return &c.T;
  if (key == "--vocabulary") return &c.vocabulary;
  return key == "--batch" ? &c.batch : nullptr;
}

void limit_level(std::string_view name) {
  using kernels::simd_level;
  for (const simd_level level : {simd_level::portable, simd_level::avx2, simd_level::avx512}) {
    if (name == to_string(level)) return kernels::limit_simd_level(level);
  }
  usage("no such level");
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--profile") {
      o.profile = true;
      continue;
    }
    if (++i == argc) usage("an option without its value");
    if (key == "--config") {
      o.shape = find_config(argv[i]);
    } else if (std::int64_t* const size = size_of(o.shape, key)) {
      *size = std::max(1, std::atoi(argv[i]));
    } else if (key == "--threads") {
      o.threads = static_cast<unsigned>(std::atoi(argv[i]));
    } else if (key == "--dtype") {
      o.low = std::strcmp(argv[i], "bf16") == 0;
    } else if (key == "--steps") {
      o.steps = std::max(1, std::atoi(argv[i]));
    } else if (key == "--gemm") {
      o.gemm = argv[i];
    } else if (key == "--level") {
      limit_level(argv[i]);
    } else {
      usage("an unknown option");
    }
  }
  return o;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

/// What products took, by shape. Products are most of a step; the rest is its difference to the phases.
struct product_times {
  struct entry {
    std::vector<double> seconds;  ///< of each call; the median is not moved by what else the machine does
    double flops = 0.0;           ///< of one call
    [[nodiscard]] double all() const { return median(seconds) * static_cast<double>(seconds.size()); }
  };
  std::map<std::string, entry> by_shape;
};

/// A matrix product that keeps time of another one.
template <class Inner>
class timed_gemm {
 public:
  static constexpr std::string_view name = Inner::name;

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const kernels::gemm_args<In, Out>& args) {
    if (times_ == nullptr) return inner_.multiply(pool, memory, args);
    const double start = bench::seconds_now();
    inner_.multiply(pool, memory, args);
    char key[96];
    std::snprintf(key, sizeof key, "%s%s %5lld x %5lld x %5lld  %s>%s%s", args.transpose_a ? "T" : "N",
                  args.transpose_b ? "T" : "N", static_cast<long long>(args.m), static_cast<long long>(args.n),
                  static_cast<long long>(args.k), to_string(dtype_of<In>).data(), to_string(dtype_of<Out>).data(),
                  args.act == kernels::activation::none ? "" : " gelu");
    auto& e = times_->by_shape[key];
    e.seconds.push_back(bench::seconds_now() - start);
    e.flops = 2.0 * static_cast<double>(args.m) * static_cast<double>(args.n) * static_cast<double>(args.k);
  }
  [[nodiscard]] std::string describe() const { return inner_.describe(); }
  void record(product_times* times) noexcept { times_ = times; }

 private:
  Inner inner_;
  product_times* times_ = nullptr;
};

/// FLOPs of a token: 6 per weight in a product (tied head included), and full attention, as the comparison counts.
double flops_per_token(const config& c) {
  const auto d = static_cast<double>(c.width);
  const auto layers = static_cast<double>(c.layers);
  return 6 * (12 * layers * d * d + static_cast<double>(c.vocabulary) * d) + 12 * layers * d * static_cast<double>(c.T);
}

struct step_times {
  double forward, backward, optimizer, loss, processor;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A model, its optimizer and a few batches of random tokens.
template <class Gemm>
class bench_run {
 public:
  using backend_type = kernels::basic_cpu_backend<Gemm>;
  using model_type = nn::basic_gpt<backend_type>;

  bench_run(const options& o, model_type&& model) : options_{o}, model_{std::move(model)}, tape_{model_.make_tape()} {
    optimizer_.reset(model_.parameters().length());
    std::mt19937 random{0};
    const config& c = o.shape;
    for (auto& batch : tokens_) {
      for (std::int64_t i = 0; i < c.batch * (c.T + 1); ++i) {
        batch.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(c.vocabulary)));
      }
    }
  }

  model_type& model() { return model_; }

  step_times step(int index) {
    const config& c = options_.shape;
    cut(tokens_[static_cast<std::size_t>(index) % tokens_.size()]);
    const auto tokens = static_cast<double>(c.batch * c.T);
    const double t0 = bench::seconds_now();
    const double processor = processor_seconds();
    auto pass = model_.forward_stage(tape_, {0, c.layers}, {inputs_, targets_, c.batch, static_cast<float>(1 / tokens), 0});
    const double t1 = bench::seconds_now();
    if (!pass || !model_.backward_stage(tape_, *pass)) usage("the model refused the batch");
    const double t2 = bench::seconds_now();
    auto& store = model_.parameters();
    auto& pool = model_.backend().pool();
    optimizer_.step(pool, store.view_with_copies(), {3e-4F, 1.0F});
    store.touch();
    kernels::zero(pool, store.gradients().data(), store.length());
    const double t3 = bench::seconds_now();
    return {t1 - t0, t2 - t1, t3 - t2, pass->loss / tokens, processor_seconds() - processor};
  }

 private:
  /// Each sequence holds one token more than the context: inputs are all but the last, targets all but the first.
  void cut(const std::vector<std::int32_t>& tokens) {
    inputs_.clear();
    targets_.clear();
    for (std::int64_t b = 0; b < options_.shape.batch; ++b) {
      const auto* row = tokens.data() + b * (options_.shape.T + 1);
      inputs_.insert(inputs_.end(), row, row + options_.shape.T);
      targets_.insert(targets_.end(), row + 1, row + options_.shape.T + 1);
    }
  }

  options options_;
  model_type model_;
  typename model_type::tape_type tape_;
  optim::adamw optimizer_;
  std::array<std::vector<std::int32_t>, 8> tokens_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

void print_products(const product_times& times, int steps, double step_seconds, double peak) {
  std::vector<std::pair<std::string, product_times::entry>> rows(times.by_shape.begin(), times.by_shape.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.all() > b.second.all(); });
  double seconds = 0.0;
  double flops = 0.0;
  for (const auto& [key, e] : rows) {
    const auto calls = static_cast<double>(e.seconds.size()) / steps;
    std::printf("  %-44s %5.1f calls %8.3f ms %7.1f GF/s\n", key.c_str(), calls, 1e3 * e.all() / steps,
                e.flops / median(e.seconds) / 1e9);
    seconds += e.all() / steps;
    flops += e.flops * calls;
  }
  std::printf("  products: %.2f ms of %.2f ms (%.0f %%), %.1f GF/s (%.0f %% of the peak)\n", 1e3 * seconds,
              1e3 * step_seconds, 100 * seconds / step_seconds, flops / seconds / 1e9, flops / seconds / 1e7 / peak);
}

template <class Inner>
int run(const options& o) {
  using bench_type = bench_run<timed_gemm<Inner>>;
  nn::gpt_options g;
  const config& c = o.shape;
  g.layers = c.layers, g.heads = c.heads, g.width = c.width, g.context = c.T, g.vocabulary = c.vocabulary;
  g.precision = o.low ? nn::precision::bf16 : nn::precision::f32;
  auto model = bench_type::model_type::create(g, typename bench_type::backend_type{o.threads});
  if (!model) usage(model.error().text().c_str());
  auto state = std::make_unique<bench_type>(o, std::move(*model));
  thread_pool& pool = state->model().backend().pool();
  const double peak = o.low ? bench::bf16_peak(pool) : bench::fma_peak(pool);
  const double first_loss = state->step(0).loss;
  for (int i = 1; i < 3; ++i) state->step(i);
  product_times products;
  if (o.profile) state->model().backend().gemm().record(&products);
  std::vector<double> forward, backward, optimizer, processor, rate;
  const auto tokens = static_cast<double>(c.batch * c.T);
  double loss = 0.0;
  for (int i = 0; i < o.steps; ++i) {
    const step_times t = state->step(i);
    forward.push_back(t.forward), backward.push_back(t.backward), optimizer.push_back(t.optimizer);
    processor.push_back(t.processor);
    rate.push_back(tokens / (t.forward + t.backward + t.optimizer));
    loss = t.loss;
  }
  const double flops = flops_per_token(c);
  const double middle = median(rate);
  std::printf(
      "causeway cfg=%s params=%lld threads=%u %s %s: tok/s min %.1f med %.1f max %.1f | ms fwd %.2f bwd %.2f opt %.2f | "
      "cpu %.2f ms, %.1f tok/s | "
      "%.1f MFLOP/token -> %.1f GFLOP/s, %.0f %% of the peak %.1f | loss %.3f -> %.3f | estimated memory %.1f MB\n",
      c.name, static_cast<long long>(state->model().parameters().count()), o.threads, o.low ? "bf16" : "f32",
      state->model().backend().gemm().describe().c_str(), *std::min_element(rate.begin(), rate.end()), middle,
      *std::max_element(rate.begin(), rate.end()), 1e3 * median(forward), 1e3 * median(backward), 1e3 * median(optimizer),
      1e3 * median(processor), tokens / median(processor), flops / 1e6, middle * flops / 1e9, middle * flops / 1e7 / peak,
      peak, first_loss, loss,
      (static_cast<double>(state->model().memory_estimate(c.batch).total()) +
       8.0 * static_cast<double>(state->model().parameters().length())) /
          1e6);  // AdamW's moments are eight bytes a parameter
  if (o.profile) print_products(products, o.steps, tokens / middle, peak);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  if (o.gemm == "packed") return run<kernels::packed_gemm>(o);
#if defined(CAUSEWAY_HAS_ONEDNN)
  if (o.gemm == "onednn") return run<kernels::onednn_gemm>(o);
#endif
  usage("this build has no such matrix product");
}
