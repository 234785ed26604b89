// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/attention.hpp>

#include <causeway/cuda/device/queue.cuh>

#include "cuda/attention_device.hpp"

#include <utility>

namespace causeway_test {
namespace {

using namespace causeway::cuda;

template <class T>
causeway::result<device_buffer<T>> on_device(stream& s, const std::vector<T>& values) {
  CAUSEWAY_ASSIGN(auto buffer, device_buffer<T>::create(values.size()));
  CAUSEWAY_TRY(buffer.write(s, values));
  return causeway::result<device_buffer<T>>{std::move(buffer)};
}

template <class Act>
causeway::result<void> run(const causeway::kernels::attention_shape& shape, attention_rows<Act>& rows) {
  CAUSEWAY_ASSIGN(auto s, stream::create());
  arena memory{0};
  device_queue on{s, memory};
  CAUSEWAY_ASSIGN(auto qkv, on_device(s, rows.qkv));
  CAUSEWAY_ASSIGN(auto o, on_device(s, rows.o));
  CAUSEWAY_ASSIGN(auto d_o, on_device(s, rows.d_o));
  CAUSEWAY_ASSIGN(auto d_qkv, on_device(s, rows.d_qkv));
  CAUSEWAY_ASSIGN(auto sums, on_device(s, rows.logsumexp));
  const Act* const p = qkv.data();
  Act* const g = d_qkv.data();
  const std::int64_t k = shape.heads * shape.head_size, v = k + shape.kv_heads * shape.head_size;
  CAUSEWAY_TRY(attention_forward(on, shape, p, p + k, p + v, o.data(), sums.data()));
  CAUSEWAY_TRY(attention_backward(on, shape, p, p + k, p + v, o.data(), d_o.data(), sums.data(), g, g + k, g + v));
  CAUSEWAY_TRY(o.read(s, rows.o));
  CAUSEWAY_TRY(d_qkv.read(s, rows.d_qkv));
  CAUSEWAY_TRY(sums.read(s, rows.logsumexp));
  return s.synchronize();
}

}  // namespace

causeway::result<void> attention_on_device(const causeway::kernels::attention_shape& shape,
                                           attention_rows<causeway::bf16>& rows) {
  return run(shape, rows);
}
causeway::result<void> attention_on_device(const causeway::kernels::attention_shape& shape, attention_rows<float>& rows) {
  return run(shape, rows);
}

causeway::result<void> check_attention_arguments(std::int64_t head_size, std::int64_t stride) {
  CAUSEWAY_TRY(detail::expect_chunks({1, 1, 1, 1, head_size, stride, stride, stride, stride, 1.0F}));
  return detail::with_head_size(head_size, [](auto) -> causeway::result<void> { return {}; });
}

}  // namespace causeway_test
