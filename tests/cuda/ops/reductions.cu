// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/reductions.hpp>

#include <causeway/cuda/device/queue.cuh>

#include <causeway/cuda/bodies/cross_entropy_body.hpp>

#include "cuda/device_functions.hpp"
#include "cuda/shared_numbers.cuh"

namespace causeway_test {
namespace {

using namespace causeway::cuda;
using causeway::bf16;

constexpr std::int64_t rows = 100, columns = 768, all = rows * columns;

/// Two memories with the same numbers: of f32, and of the type of activations.
template <class Act>
struct side {
  shared_numbers<float> floats;
  shared_numbers<Act> acts;

  static causeway::result<side> create() {
    CAUSEWAY_ASSIGN(auto floats, shared_numbers<float>::create(8 * all));
    CAUSEWAY_ASSIGN(auto acts, shared_numbers<Act>::create(4 * all));
    return side{std::move(floats), std::move(acts)};
  }
  float* f(std::int64_t place) const { return floats.data() + place * all; }
  Act* a(std::int64_t place) const { return acts.data() + place * all; }
};

template <bool Centered, class Act>
norm_forward_body<Centered, Act> forward_of(const side<Act>& m) {
  norm_forward_body<Centered, Act> body{.x = m.f(0), .branch = m.a(0), .sum = m.f(0), .gain = m.f(1)};
  body.bias = Centered ? m.f(2) : nullptr;
  body.y = m.a(1), body.mean = m.f(3), body.rstd = m.f(4), body.columns = columns;
  return body;
}

template <bool Centered, class Act>
norm_backward_body<Centered, Act> backward_of(const side<Act>& m) {
  norm_backward_body<Centered, Act> body{.x = m.f(0), .gain = m.f(1), .mean = m.f(3), .rstd = m.f(4), .dy = m.a(2)};
  body.dx = m.f(5), body.accumulate = true, body.rows = rows, body.columns = columns;
  return body;
}

template <class Act>
cross_entropy_body<Act, Act> loss_of(const side<Act>& m, const std::int32_t* targets) {
  return {m.a(3), m.a(3), targets, m.f(6), columns - 5, columns, 0.5F};
}

template <class Act>
causeway::result<void> compare_with(comparisons& list, const char* name, const side<Act>& got, const side<Act>& expected) {
  const auto add = [&]<class T>(const T* x, const T* y, std::int64_t n) {
    const std::vector<T> a(x, x + n), b(y, y + n);
    list.push_back({name, differing(a, b), distance(a, b)});
  };
  add(got.f(0), expected.f(0), 8 * all);
  add(got.a(0), expected.a(0), 4 * all);
  return {};
}

template <bool Centered, class Act>
causeway::result<void> compare_norm(comparisons& list, device_queue& q, stream& s) {
  CAUSEWAY_ASSIGN(const auto got, side<Act>::create());
  CAUSEWAY_ASSIGN(const auto expected, side<Act>::create());
  CAUSEWAY_TRY(for_each_row(s, rows, columns, forward_of<Centered>(got)));
  CAUSEWAY_TRY(norm_backward(q, backward_of<Centered>(got), got.f(6), Centered ? got.f(7) : nullptr));
  CAUSEWAY_TRY(s.synchronize());

  lone_group alone;
  for (std::int64_t row = 0; row < rows; ++row) forward_of<Centered>(expected).template run<1>(alone, row);
  auto body = backward_of<Centered>(expected);
  const std::int64_t blocks = norm_blocks(rows), stride = body.arrays * columns;
  std::vector<float> partials(static_cast<std::size_t>(blocks * stride)), working(static_cast<std::size_t>(stride));
  body.partials = partials.data();
  for (std::int64_t block = 0; block < blocks; ++block) body.template run<1>(alone, block, working.data());
  run_here(column_total_body{partials.data(), expected.f(6), blocks, stride}, columns);
  if (Centered) run_here(column_total_body{partials.data() + columns, expected.f(7), blocks, stride}, columns);
  return compare_with(list, "norm", got, expected);
}

template <class Act>
causeway::result<void> compare_loss(comparisons& list, device_queue& q, stream& s) {
  CAUSEWAY_ASSIGN(const auto got, side<Act>::create());
  CAUSEWAY_ASSIGN(const auto expected, side<Act>::create());
  CAUSEWAY_ASSIGN(const auto targets, shared_numbers<float>::create(rows));  // four bytes each, as targets have
  auto* const chosen = reinterpret_cast<std::int32_t*>(targets.data());
  for (std::int64_t row = 0; row < rows; ++row) chosen[row] = row % 9 == 0 ? -1 : static_cast<std::int32_t>(row * 7);
  CAUSEWAY_TRY(for_each_row(s, rows, columns, loss_of(got, chosen)));
  CAUSEWAY_TRY(bias_gradient(q, got.a(1), got.f(1), rows, columns));
  CAUSEWAY_TRY(clip_by_norm(q, got.f(2), all - 3, 1.0F, got.f(7)));
  CAUSEWAY_TRY(s.synchronize());

  lone_group alone;
  for (std::int64_t row = 0; row < rows; ++row) loss_of(expected, chosen).template run<1>(alone, row);
  std::vector<float> partials(static_cast<std::size_t>(column_blocks(rows) * columns));
  run_here(column_partial_body<Act>{expected.a(1), partials.data(), rows, columns}, column_blocks(rows) * columns);
  run_here(column_total_body{partials.data(), expected.f(1), column_blocks(rows), columns}, columns);
  std::vector<double> sums(static_cast<std::size_t>(total_blocks));
  double squares = 0;
  const total_partial_body<summand::square> body{expected.f(2), sums.data(), all - 3};
  for (std::int64_t block = 0; block < total_blocks; ++block) body.template run<1>(alone, block);
  total_body{sums.data(), &squares}.template run<1>(alone, 0);
  clip_body{&squares, expected.f(7), 1.0F}(0);
  return compare_with(list, "cross-entropy, bias gradient, norm of gradients", got, expected);
}

}  // namespace

causeway::result<comparisons> compare_reductions() {
  comparisons list;
  CAUSEWAY_ASSIGN(auto s, stream::create());
  arena memory{0};
  device_queue q{s, memory};
  CAUSEWAY_TRY((compare_norm<true, float>(list, q, s)));
  CAUSEWAY_TRY((compare_norm<true, bf16>(list, q, s)));
  CAUSEWAY_TRY((compare_norm<false, float>(list, q, s)));
  CAUSEWAY_TRY((compare_norm<false, bf16>(list, q, s)));
  CAUSEWAY_TRY(compare_loss<float>(list, q, s));
  CAUSEWAY_TRY(compare_loss<bf16>(list, q, s));
  return list;
}

}  // namespace causeway_test
