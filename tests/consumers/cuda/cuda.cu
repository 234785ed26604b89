// SPDX-License-Identifier: Apache-2.0
// A user's kernel on our stream: right where there is a device, and an error that says what is missing where there is none.
#include <causeway/cuda/device/elementwise.cuh>

#include <cstdint>
#include <cstdio>
#include <vector>

struct squares {
  std::int64_t* out;
  CAUSEWAY_HD void operator()(std::int64_t i) const { out[i] = i * i; }
};

causeway::result<std::vector<std::int64_t>> computed(std::size_t count) {
  CAUSEWAY_ASSIGN(auto stream, causeway::cuda::stream::create());
  CAUSEWAY_ASSIGN(auto memory, causeway::cuda::device_buffer<std::int64_t>::create(count));
  CAUSEWAY_TRY(causeway::cuda::elementwise(stream, static_cast<std::int64_t>(count), squares{memory.data()}));
  std::vector<std::int64_t> values(count);
  CAUSEWAY_TRY(memory.read(stream, values));
  CAUSEWAY_TRY(stream.synchronize());
  return values;
}

int main() {
  const auto values = computed(1000);
  if (values) return (*values)[999] == 999 * 999 ? 0 : 1;
  std::printf("%s\n", values.error().text().c_str());
  return values.error().code == causeway::errc::unsupported ? 0 : 1;
}
