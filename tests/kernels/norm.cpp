// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/norm.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

constexpr float epsilon = 1e-5F;

// x [rows, columns], gain, bias: one vector, so that finite differences can move any of them.
struct problem {
  std::size_t rows, columns;
  bool centered;

  std::vector<double> forward(const std::vector<double>& all) const {
    const double* gain = all.data() + rows * columns;
    const double* bias = gain + columns;
    std::vector<double> y(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
      const double* x = all.data() + r * columns;
      const auto n = static_cast<double>(columns);
      double mean = 0.0, square = 0.0;
      for (std::size_t i = 0; i < columns; ++i) mean += centered ? x[i] / n : 0.0;
      for (std::size_t i = 0; i < columns; ++i) square += (x[i] - mean) * (x[i] - mean) / n;
      const double rstd = 1.0 / std::sqrt(square + static_cast<double>(epsilon));
      for (std::size_t i = 0; i < columns; ++i) {
        y[r * columns + i] = (x[i] - mean) * rstd * gain[i] + (centered ? bias[i] : 0.0);
      }
    }
    return y;
  }
};

struct data {
  std::vector<float> x, gain, bias;
  std::vector<double> all;

  explicit data(const problem& p)
      : x{test::uniform(p.rows * p.columns, 1, -2.0F, 3.0F)},
        gain{test::uniform(p.columns, 2, 0.5F, 1.5F)},
        bias{test::uniform(p.columns, 3)} {
    all = test::as_double(x);
    for (const float v : gain) all.push_back(static_cast<double>(v));
    for (const float v : bias) all.push_back(static_cast<double>(v));
  }
};

template <class Act>
struct results {
  std::vector<Act> y;
  std::vector<float> mean, rstd, dx, dgain, dbias;

  results(const problem& p, const data& d, const std::vector<Act>& dy, bool accumulate, unsigned threads, simd_level level)
      : y(p.rows * p.columns),
        mean(p.rows),
        rstd(p.rows),
        dx(p.rows * p.columns, 0.25F),
        dgain(p.columns, 0.5F),
        dbias(p.columns, 0.75F) {
    thread_pool pool{threads};
    scratch memory;
    const auto rows = static_cast<std::int64_t>(p.rows);
    const auto columns = static_cast<std::int64_t>(p.columns);
    if (p.centered) {
      layer_norm_forward(pool, d.x.data(), d.gain.data(), d.bias.data(), y.data(), mean.data(), rstd.data(), rows, columns,
                         epsilon, level);
      layer_norm_backward(pool, memory, d.x.data(), d.gain.data(), mean.data(), rstd.data(), dy.data(), dx.data(),
                          accumulate, dgain.data(), dbias.data(), rows, columns, level);
    } else {
      rms_norm_forward(pool, d.x.data(), d.gain.data(), y.data(), rstd.data(), rows, columns, epsilon, level);
      rms_norm_backward(pool, memory, d.x.data(), d.gain.data(), rstd.data(), dy.data(), dx.data(), accumulate,
                        dgain.data(), rows, columns, level);
    }
  }
};

template <class Act>
void check_gradients(bool centered, std::size_t rows, std::size_t columns) {
  const problem p{rows, columns, centered};
  const data d{p};
  const auto dy = test::stored<Act>(test::uniform(rows * columns, 4));
  const auto weights = test::as_double(dy);
  const auto loss = [&](const std::vector<double>& all) {
    const auto y = p.forward(all);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  const auto gradient = test::finite_differences(loss, d.all);
  for (const bool accumulate : {false, true}) {
    const auto end = gradient.begin() + static_cast<std::ptrdiff_t>(rows * columns);
    std::vector<double> dx(gradient.begin(), end);
    std::vector<double> dgain(end, end + static_cast<std::ptrdiff_t>(columns));
    std::vector<double> dbias(end + static_cast<std::ptrdiff_t>(columns), gradient.end());
    for (double& v : dx) v += accumulate ? 0.25 : 0.0;
    for (double& v : dgain) v += 0.5;
    for (double& v : dbias) v += 0.75;
    for (const auto level : test::levels()) {
      const results<Act> r{p, d, dy, accumulate, 3, level};
      INFO(to_string(level) << ", " << rows << " rows of " << columns << ", accumulate " << accumulate);
      CHECK(test::worst_error(r.y, p.forward(d.all)) < test::rounding<Act>(2e-6));
      CHECK(test::worst_error(r.dx, dx) < 2e-5);
      CHECK(test::worst_error(r.dgain, dgain) < 2e-5);
      CHECK(test::worst_error(r.dbias, dbias) < 2e-5);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("layer norm: forward is the definition and gradient equals finite differences", "[kernels][fast]", float,
                   bf16) {
  check_gradients<TestType>(true, 1, 5);
  check_gradients<TestType>(true, 3, 16);
  check_gradients<TestType>(true, 4, 77);
}

TEMPLATE_TEST_CASE("rms norm: forward is the definition and gradient equals finite differences", "[kernels][fast]", float,
                   bf16) {
  check_gradients<TestType>(false, 1, 5);
  check_gradients<TestType>(false, 3, 16);
  check_gradients<TestType>(false, 4, 77);
}

TEST_CASE("norms: the same bits for any number of threads", "[kernels][fast]") {
  for (const bool centered : {false, true}) {
    const problem p{301, 131, centered};
    const data d{p};
    const auto dy = test::uniform(p.rows * p.columns, 4);
    const auto expected = p.forward(d.all);
    for (const auto level : test::levels()) {
      const results<float> one{p, d, dy, false, 1, level};
      const results<float> three{p, d, dy, false, 3, level};
      CHECK(test::worst_error(one.y, expected) < 2e-6);
      CHECK(three.y == one.y);
      CHECK(three.dx == one.dx);
      CHECK(three.dgain == one.dgain);
      CHECK(three.dbias == one.dbias);
    }
  }
}

TEST_CASE("layer norm: a large common offset does not spoil the variance", "[kernels][fast]") {
  const problem p{2, 200, true};
  data d{p};
  for (auto& v : d.x) v += 4096.0F;
  for (std::size_t i = 0; i < d.x.size(); ++i) d.all[i] = static_cast<double>(d.x[i]);
  const std::vector<float> dy(p.rows * p.columns, 1.0F);
  for (const auto level : test::levels()) {
    const results<float> r{p, d, dy, false, 1, level};
    CHECK(test::worst_error(r.y, p.forward(d.all)) < 1e-3);
  }
}
