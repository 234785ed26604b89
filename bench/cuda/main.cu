// SPDX-License-Identifier: Apache-2.0

// Every kernel of cuda/ beside what bounds it on this device: `main [--quick]` prints a page in Markdown. Exit code 2: no
// device; 1: something could not be measured, and the page says what. bench/cuda/run.sh runs this and the tests.

#include <causeway/cuda/device/matmul.cuh>

#include "cuda/meter.cuh"
#include "cuda/round.hpp"
#include "cuda/step.hpp"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>

namespace {

using namespace bench;
using causeway::bf16;

/// Two gigabytes that are copied into one another.
struct copy_reference {
  cuda::device_buffer<float> from, to;

  static result<copy_reference> create(meter& m) {
    const std::int64_t n = m.sized(std::int64_t{1} << 28U);
    CAUSEWAY_ASSIGN(auto from, m.random<float>(n));
    CAUSEWAY_ASSIGN(auto to, m.random<float>(n));
    return result<copy_reference>{copy_reference{std::move(from), std::move(to)}};
  }
  [[nodiscard]] double bytes() const { return 8.0 * static_cast<double>(from.size()); }
  result<void> start(meter& m) {
    return cuda::check(
        cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(float), cudaMemcpyDeviceToDevice, m.stream().handle()),
        "copying on the device");
  }
};

/// A square product of bf16.
struct product_reference {
  cuda::matmul products;
  cuda::device_buffer<bf16> a, b, c;
  std::int64_t n = 0;

  static result<product_reference> create(meter& m, std::int64_t n) {
    CAUSEWAY_ASSIGN(auto products, cuda::matmul::create());
    CAUSEWAY_ASSIGN(auto a, m.random<bf16>(n * n));
    CAUSEWAY_ASSIGN(auto b, m.random<bf16>(n * n));
    CAUSEWAY_ASSIGN(auto c, m.random<bf16>(n * n));
    return result<product_reference>{product_reference{std::move(products), std::move(a), std::move(b), std::move(c), n}};
  }
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  }
  result<void> start(meter& m) {
    cuda::matmul_args<bf16, bf16> args{.transpose_b = true, .m = n, .n = n, .k = n, .a = a.data(), .lda = n};
    args.b = b.data(), args.ldb = n, args.c = c.data(), args.ldc = n;
    return products.multiply(m.stream(), args);
  }
};

/// The largest rate of a few sizes, which becomes the reference.
result<double> set_product_peak(meter& m, product_reference& best) {
  double peak = 0;
  for (const std::int64_t n : {4096, 8192, 12288}) {
    CAUSEWAY_ASSIGN(auto tried, product_reference::create(m, m.quick() ? 256 : n));
    CAUSEWAY_ASSIGN(const double rate, m.rate_of([&] { return tried.start(m); }, tried.operations()));
    if (rate > peak) peak = rate, best = std::move(tried);
    CAUSEWAY_TRY(m.stream().synchronize());
  }
  m.set_reference(
      bound::product, [&m, &best] { return best.start(m); }, best.operations());
  return peak;
}

void print_figures(const meter& m, std::size_t from) {
  std::printf("\n| kernel | size | time | rate | share |\n|---|---|---|---|---|\n");
  for (std::size_t i = from; i < m.figures().size(); ++i) {
    const figure& f = m.figures()[i];
    std::printf("| %s | %s | %.3f ms | %s | %.0f %% of the %s |\n", f.name.c_str(), f.size.c_str(), f.seconds * 1e3,
                (std::to_string(static_cast<long>(f.rate / (f.by == bound::copy ? 1e9 : 1e12))) +
                 (f.by == bound::copy ? " GB/s" : " TFLOP/s"))
                    .c_str(),
                f.share * 100, f.by == bound::copy ? "copy" : "product");
  }
}

/// One part of the page; what went wrong is said there, and the others go on.
bool part(meter& m, const char* title, result<void> (*measure)(meter&)) {
  const std::size_t from = m.figures().size();
  const auto done = measure(m);
  std::printf("\n## %s\n", title);
  if (m.figures().size() > from) print_figures(m, from);
  if (!done) std::printf("\nNot measured further: %s\n", done.error().text().c_str());
  std::fflush(stdout);
  return done.has_value();
}

/// Whole training steps. `peak` is in operations a second.
bool steps(bool quick, double peak) {
  std::printf("\n## Training steps\n");
  const auto measured = measure_steps(quick);
  if (!measured) {
    std::printf("\nNot measured further: %s\n", measured.error().text().c_str());
    return false;
  }
  std::printf("\n| model | tokens | step | tokens/s | products | share |\n|---|---|---|---|---|---|\n");
  for (const step_figure& f : *measured) {
    std::printf("| %s, bf16 | %.0f | %.2f ms | %.0f | %.0f TFLOP/s | %.0f %% of the product |\n", f.model.c_str(), f.tokens,
                f.seconds * 1e3, f.tokens / f.seconds, f.operations / f.seconds / 1e12,
                f.operations / f.seconds / peak * 100);
  }
  return true;
}

/// A round of DiLoCo.
bool round_of_diloco(bool quick) {
  std::printf("\n## A round of DiLoCo on the device\n");
  const auto measured = measure_round(quick);
  if (!measured) {
    std::printf("\nNot measured: %s\n", measured.error().text().c_str());
    return false;
  }
  std::printf("\n124M parameters, block_int8.\n\n| part | time | to or from the host |\n|---|---|---|\n");
  for (const round_figure& f : *measured) {
    std::printf("| %s | %.2f ms | %.0f MB, %.1f GB/s |\n", f.part.c_str(), f.seconds * 1e3, f.crossing / 1e6,
                f.crossing / f.seconds / 1e9);
  }
  return true;
}

result<bool> run(bool quick) {
  CAUSEWAY_ASSIGN(auto m, meter::create(quick));
  CAUSEWAY_ASSIGN(const auto device, cuda::describe_device());
  char day[32] = "";
  const std::time_t now = std::time(nullptr);
  std::strftime(day, sizeof day, "%Y-%m-%d", std::gmtime(&now));
  std::printf("# CUDA kernels on %s\n\n%s, sm_%d%d, %d multiprocessors, `bench_cuda%s`%s.\n", device.name.c_str(), day,
              device.major, device.minor, device.multiprocessors, quick ? " --quick" : "",
              quick ? "; sizes are small, so the figures mean nothing" : "");

  CAUSEWAY_ASSIGN(auto copied, copy_reference::create(m));
  const auto copy = [&] { return copied.start(m); };
  m.set_reference(bound::copy, copy, copied.bytes());
  CAUSEWAY_ASSIGN(const double bandwidth, m.rate_of(copy, copied.bytes()));
  CAUSEWAY_ASSIGN(auto multiplied, product_reference::create(m, 64));
  CAUSEWAY_ASSIGN(const double peak, set_product_peak(m, multiplied));
  std::printf(
      "Copies reach %.0f GB/s (read and written), products of bf16 %.0f TFLOP/s (%ld x %ld, cuBLASLt). Shares are\n"
      "medians of 11 rounds in which a kernel took turns with the copy or the product.\n",
      bandwidth / 1e9, peak / 1e12, static_cast<long>(multiplied.n), static_cast<long>(multiplied.n));
  bool all = part(m, "Forward and backward pass", measure_memory_bound);
  all = part(m, "Updates", measure_updates) && all;
  all = part(m, "Codecs", measure_codecs) && all;
  all = part(m, "Attention", measure_attention) && all;
  all = part(m, "Products", measure_products) && all;
  all = round_of_diloco(quick) && all;
  return steps(quick, peak) && all;
}

}  // namespace

int main(int count, char** arguments) {
  const bool quick = count == 2 && std::string_view{arguments[1]} == "--quick";
  if (count > 1 && !quick) {
    std::fprintf(stderr, "usage: %s [--quick]\n", arguments[0]);
    return 1;
  }
  const auto done = run(quick);
  if (done) return done.value() ? 0 : 1;
  std::fprintf(stderr, "bench_cuda: %s\n", done.error().text().c_str());
  return done.error().code == causeway::errc::unsupported ? 2 : 1;
}
