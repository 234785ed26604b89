// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/elementwise.cuh>

#include <causeway/tensor/dtype.hpp>

#include "cuda/device_functions.hpp"

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

}  // namespace

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
