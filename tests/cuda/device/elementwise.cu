// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/elementwise.cuh>

#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/embedding_bodies.hpp>
#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/tensor/dtype.hpp>

#include "cuda/body_support.hpp"
#include "cuda/device_functions.hpp"
#include "cuda/shared_numbers.cuh"

#include <array>
#include <cstdint>

namespace causeway_test {
namespace {

template <class In, class Out>
causeway::result<std::vector<Out>> convert(std::span<const In> values) {
  CAUSEWAY_ASSIGN(auto stream, causeway::cuda::stream::create());
  CAUSEWAY_ASSIGN(auto in, causeway::cuda::device_buffer<In>::create(values.size()));
  CAUSEWAY_ASSIGN(auto out, causeway::cuda::device_buffer<Out>::create(values.size()));
  std::vector<Out> converted(values.size());
  CAUSEWAY_TRY(in.write(stream, values));
  CAUSEWAY_TRY(causeway::cuda::elementwise(stream, static_cast<std::int64_t>(values.size()),
                                           causeway::cuda::convert_body<In, Out>{in.data(), out.data()}));
  CAUSEWAY_TRY(out.read(stream, converted));
  CAUSEWAY_TRY(stream.synchronize());
  return converted;
}

using namespace causeway::cuda;
using causeway::bf16;

constexpr std::int64_t rows = 300, width = 260, all = rows * width;

/// Runs the body that `make(memory, memory of tokens)` makes on the device and here, each on four arrays of numbers.
template <class T, class Make>
causeway::result<void> compare(comparisons& list, const char* name, std::int64_t count, Make make) {
  constexpr std::size_t n = 4 * all;
  CAUSEWAY_ASSIGN(auto s, stream::create());
  CAUSEWAY_ASSIGN(auto there, shared_numbers<T>::create(n));
  CAUSEWAY_ASSIGN(auto here, shared_numbers<T>::create(n));
  CAUSEWAY_TRY(elementwise(s, count, make(there.data())));
  CAUSEWAY_TRY(s.synchronize());
  run_here(make(here.data()), count);
  const std::vector<T> got(there.data(), there.data() + n), expected(here.data(), here.data() + n);
  list.push_back({name, differing(got, expected), distance(got, expected)});
  return {};
}

template <class T>
causeway::result<void> compare_activations(comparisons& list) {
  CAUSEWAY_TRY(compare<T>(list, "gelu", all - 1, [](T* x) { return gelu_forward_body<T>{x, x + all}; }));
  CAUSEWAY_TRY(compare<T>(list, "gelu, backward", all, [](T* x) { return gelu_backward_body<T>{x, x + all, x + all}; }));
  CAUSEWAY_TRY(compare<T>(list, "swiglu", all, [](T* x) { return swiglu_forward_body<T>{x, x + 2 * all, width}; }));
  CAUSEWAY_TRY(compare<T>(list, "swiglu, backward", all, [](T* x) {
    return swiglu_backward_body<T>{x, x + 2 * all, x, width};
  }));
  return compare<T>(list, "add", all - 4, [](T* x) { return add_body<T>{x, x + all, x + 2 * all + 1}; });
}

}  // namespace

causeway::result<comparisons> compare_inexact_bodies() {
  comparisons list;
  CAUSEWAY_TRY(compare_activations<float>(list));
  CAUSEWAY_TRY(compare_activations<bf16>(list));
  CAUSEWAY_TRY(compare<float>(list, "rotary", rows * width / 2, [](float* x) {
    return rotary_body<float>{x + all, x + 2 * all, x, 100, width, 5, width / 10, -1.0F};
  }));
  return list;
}

causeway::result<comparisons> compare_exact_bodies() {
  comparisons list;
  CAUSEWAY_TRY(compare<float>(list, "adamw", all, [](float* x) {
    const auto positive = [](float* v) {
      for (std::int64_t i = 0; i < all; ++i) v[i] = v[i] * v[i];
      return v;
    };
    return adamw_body{x, x + all, x + 2 * all, positive(x + 3 * all), {.weight_decay = 0.1F}};
  }));
  const std::array<std::int64_t, 3> turns{8, 1000, 4000};
  CAUSEWAY_TRY(compare<float>(list, "adamw, turns", all, [&](float* x) {
    for (std::int64_t i = 0; i < all; ++i) x[3 * all + i] *= x[3 * all + i];
    return turning_adamw_body{{x, x + all, x + 2 * all, x + 3 * all, {.weight_decay = 0.1F}}, {turns, 0}};
  }));
  const causeway::kernels::sgd_coefficients c{.learning_rate = 0.7F, .momentum = 0.9F, .weight_decay = 0.01F};
  CAUSEWAY_TRY(compare<float>(list, "nesterov", all - 3, [&](float* x) {
    return momentum_body<true>{x, x + all, x + 2 * all, c};
  }));
  CAUSEWAY_TRY(compare<float>(list, "sgd", all - 3, [&](float* x) { return sgd_body{x + 1, x + all, c}; }));
  CAUSEWAY_TRY(compare<float>(list, "muon, momentum", all, [](float* x) {
    return muon_momentum_body{x, x + all, x + 2 * all, 0.95F, 0.3F};
  }));
  CAUSEWAY_TRY(compare<float>(list, "scale", all, [](float* x) { return scale_body{x + 3, 0.3F}; }));
  CAUSEWAY_TRY(compare<float>(list, "blend", all, [](float* x) { return blend_body{x, 0.3F, x + all, 0.7F}; }));
  CAUSEWAY_TRY(compare<float>(list, "compensate", all, [](float* x) {
    return compensate_body{x, x + all, x + 2 * all, {.steps = 3.0F}};
  }));
  CAUSEWAY_TRY(compare<float>(list, "gossip", all, [](float* x) {
    return gossip_body{x, x + all, x + 2 * all, x + 3 * all, {.gamma = 0.6F}};
  }));
  CAUSEWAY_TRY(compare<float>(list, "take over", all, [](float* x) { return take_over_body{x, x + all, x + 2 * all}; }));
  CAUSEWAY_TRY(compare<float>(list, "fill", all, [](float* x) { return fill_body{x, 0.3F}; }));
  CAUSEWAY_TRY(compare<float>(list, "positions, backward", 10 * width, [](float* x) {
    return column_total_body{x, x + all, rows / 10, 10 * width};
  }));
  return list;
}

template <class Half>
causeway::result<std::vector<Half>> convert_on_device(std::span<const float> values) {
  return convert<float, Half>(values);
}
template <class Half>
causeway::result<std::vector<float>> convert_back_on_device(std::span<const Half> values) {
  return convert<Half, float>(values);
}

template causeway::result<std::vector<causeway::bf16>> convert_on_device(std::span<const float>);
template causeway::result<std::vector<causeway::f16>> convert_on_device(std::span<const float>);
template causeway::result<std::vector<float>> convert_back_on_device(std::span<const causeway::bf16>);
template causeway::result<std::vector<float>> convert_back_on_device(std::span<const causeway::f16>);

}  // namespace causeway_test
